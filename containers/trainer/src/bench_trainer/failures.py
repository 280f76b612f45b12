"""How a job can fail. The kind is carried by the exception's type, never read out of its text."""


class Failure(Exception):
    """A job cannot be done. kind is the protocol's `failure`; str() is one sentence for a person."""

    kind = "trainer"


class Unsupported(Failure):
    """The model cannot do this task: no such head, no offsets, code that may not be imported."""

    kind = "unsupported"


class BadInput(Failure):
    """Rows or model files that cannot be read."""

    kind = "input"


class OutOfMemory(Failure):
    """Out of memory; at micro-batch 1 it is the job's failure, before that a reason to halve it."""

    kind = "oom"


class NotFinite(Failure):
    """A loss or a logit is NaN or infinite; in fp32 it is the job's failure, before that a reason to use fp32."""

    kind = "nan"


class Infrastructure(Failure):
    """The device is lost or the disk is full: nothing that the model or the data did."""

    kind = "infra"


class BadBatch(Exception):
    """The batch itself is bad input: exit 65."""
