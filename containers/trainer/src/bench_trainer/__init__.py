"""bench's own trainer: fine-tunes one model on the jobs of a batch and writes predictions (docs/trainer-protocol.md)."""

PROTOCOL = 1
