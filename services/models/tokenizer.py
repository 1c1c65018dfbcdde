"""A small byte-level BPE tokenizer with a ChatML template, trained in a fraction of a second."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from services.models.text import training_text

VOCAB_SIZE = 2048
END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL_TOKENS = (END_OF_TEXT, TURN_START, TURN_END)
TURN_END_ID = SPECIAL_TOKENS.index(TURN_END)

# Nothing is stripped from earlier turns, so a conversation's next prompt extends its last one
# and the text that was generated can be found in the cache again.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_TRAINING_SEED = 20
_TRAINING_SENTENCES = 8000


def save_chat_tokenizer(folder: Path, max_tokens: int) -> None:
    """Write tokenizer files, the same bytes each time, that transformers can load."""
    _train().save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": TURN_END,
        "pad_token": END_OF_TEXT,
        "model_max_length": max_tokens,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _train() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    # The whole byte alphabet is in the vocabulary: every string survives a round trip.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_text(_TRAINING_SEED, _TRAINING_SENTENCES), trainer)
    return tokenizer
