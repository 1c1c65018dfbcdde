"""The sizes of a random Qwen3; apart from its weights, so that a name resolves without torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Qwen3Shape:
    """The sizes of a Qwen3 model; `seed` fixes its weights."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    max_tokens: int = 32768
    seed: int = 0

    def fingerprint(self) -> str:
        """A text that differs whenever the weights would."""
        return (
            f"{self.layers}x{self.hidden}x{self.intermediate}"
            f"-{self.heads}:{self.kv_heads}x{self.head_dim}-{self.max_tokens}-s{self.seed}"
        )

    def kv_bytes_per_token(self) -> int:
        """Size of one token's keys and values in bf16."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 2
