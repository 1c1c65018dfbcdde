"""Agent workflows as load on any OpenAI-compatible endpoint, and what they measured."""
