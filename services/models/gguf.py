"""A quantised Llama in a GGUF file, turned into a bf16 model folder that SGLang loads.

Run as `python -m services.models.gguf FILE FOLDER`: a process of its own gives the memory
of two copies of the model back, and keeps the library's progress bars off the screen.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM


def llama_from_gguf(gguf: Path, folder: Path) -> None:
    """Write config, bf16 safetensors, tokenizer and chat template of `gguf` into `folder`."""
    source = {"gguf_file": gguf.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **source)
    if not tokenizer.chat_template:
        raise ValueError(f"{gguf.name} has no chat template")
    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.bfloat16, **source)
    settings = loaded.config.to_dict()
    # The weights are no longer quantised; left in, it makes SGLang look for a GGUF loader.
    settings.pop("quantization_config", None)
    model = LlamaForCausalLM(LlamaConfig(**settings)).to(torch.bfloat16)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    llama_from_gguf(Path(sys.argv[1]), Path(sys.argv[2]))
