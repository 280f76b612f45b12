"""Running the jobs of a batch, one after the other, in one process."""

import errno
import gc
import inspect
import os
import time
import traceback

import torch

from . import PROTOCOL, encode, model as models, probe, runtime, speed, tiny
from .batch import read_rows
from .batching import Collator
from .events import json_line, log, write_atomically
from .failures import Failure, Infrastructure, NotFinite, OutOfMemory
from .memory import OUT_OF_MEMORY
from .predict import predict, shorten
from .train import Runner

# What a full or lost disk says; retrying the job elsewhere may help, the job itself is not to blame.
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE}
# CUDA's error number of an assertion inside a kernel (an index out of range, say): a fault, not a lost device.
CUDA_ASSERT = 710


class Session:
    """State shared by a batch's jobs: tokenizer, encoded data sets, device."""

    def __init__(self, batch, out, events, device, threads):
        self.batch = batch
        self.out = out
        self.events = events
        self.device = device
        self.threads = threads
        self.device_lost = False
        self.meter = runtime.energy_meter(device)
        self._tokenizers = {}
        self._rows = {}
        self._encoded = {}
        self._warned = set()

    # -- what is loaded once ---------------------------------------------------------------------------------------

    def warn_once(self, job, message):
        if message not in self._warned:
            self._warned.add(message)
            self.events.warn(job, message)

    def rows(self, dataset):
        if dataset.name not in self._rows:
            self._rows[dataset.name] = encode.read_dataset(dataset)
        return self._rows[dataset.name]

    def tokenizer(self, dataset, model_class, config, job):
        """The batch's tokenizer with its longest input set; of fresh:tiny, one for each data set."""
        tiny_one = self.batch.model.fresh == "tiny"
        prefix = models.wants_prefix_space(model_class)
        key = dataset.name if tiny_one else prefix
        if key not in self._tokenizers:
            if tiny_one:
                tokenizer = tiny.tokenizer(dataset.head, self._training_rows(dataset))
            else:
                tokenizer = models.load_tokenizer(self.batch.model, prefix)
            wanted = self.batch.hyperparameters.max_length
            tokenizer.model_max_length = models.longest_input(tokenizer, config, wanted, lambda m: self.warn_once(job, m))
            self._tokenizers[key] = tokenizer
        return self._tokenizers[key]

    def _training_rows(self, dataset):
        if dataset.head == "speed":
            return read_rows(dataset, "test")  # it has no others
        return self.rows(dataset)["train"]

    def encoded(self, dataset, tokenizer, accepted):
        if dataset.name not in self._encoded:
            self._encoded[dataset.name] = encode.encode(dataset, self.rows(dataset), tokenizer, accepted)
        return self._encoded[dataset.name]

    def forget(self, dataset):
        """Free what no later job needs."""
        self._rows.pop(dataset.name, None)
        self._encoded.pop(dataset.name, None)

    # -- one job ---------------------------------------------------------------------------------------------------

    def _load(self, dataset, job):
        """(model, tokenizer): weights and heads as the seed gives them. Draws happen in the reference system's order."""
        spec, hp = self.batch.model, self.batch.hyperparameters
        runtime.seed_everything(job.seed)
        if spec.fresh == "tiny":
            tokenizer = self.tokenizer(dataset, "", None, job.id)
            labels = ("START", "END") if dataset.head == "question-answering" else dataset.labels
            config = tiny.config(len(tokenizer), labels, hp.dropout)
            model, _ = models.build(spec, config, dataset.head, None)
        else:
            config = models.head_config(spec, dataset.head, dataset.labels, hp.dropout)
            tokenizer = self.tokenizer(dataset, models.class_name(spec, config, dataset.head), config, job.id)
            # Positions that only see padding come out differently of each implementation of attention, and in question
            # answering padding takes part in the softmax over positions: there the plain one, as in the reference.
            plain = dataset.head == "question-answering" and models.pads_left(tokenizer)
            model, missing = models.build(spec, config, dataset.head, models.read_weights(spec), "eager" if plain else None)
            if not spec.fresh:
                runtime.seed_everything(job.seed)
                models.init_missing(model, missing)
            models.fix_head(model, dataset.head, dataset.languages, spec.id)
            models.align(model, tokenizer)
        models.set_module_dropout(model, hp.dropout)
        return model, tokenizer

    def _attempt(self, job, dataset, micro_batch, precision, facts):
        """Predictions of one job with one micro-batch size and precision; fills facts, the outcome's fields."""
        seconds = facts["seconds"] = {"load": 0.0, "tokenize": 0.0, "train": 0.0, "predict": 0.0}
        clock = Clock(seconds)
        with clock("load"):
            try:
                model, tokenizer = self._load(dataset, job)
                accepted = input_names(model)
                facts["threads"] = runtime.use_threads(model, self.threads)
                facts.update(
                    parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
                    vocabulary=getattr(model.config, "vocab_size", None) or len(tokenizer),
                    max_length=int(tokenizer.model_max_length), precision=precision,
                    micro_batch=micro_batch, accumulation=-(-self.batch.hyperparameters.batch_size // micro_batch),
                )
                if dataset.head == "speed":
                    facts.update(precision="fp32", micro_batch=1, accumulation=1)
                else:
                    model.to(self.device)
            except OUT_OF_MEMORY as e:
                raise NoRoomForModel("out of memory while loading the model") from e
        if dataset.head == "speed":
            return self._measure(dataset, model, tokenizer, accepted, clock)
        with clock("tokenize"):
            encoded = self.encoded(dataset, tokenizer, accepted)
        hp = self.batch.hyperparameters
        with clock("load"):
            collator = Collator(encoded, self.device)
            free = probe.padding_free(model, collator, encoded, dataset.head, tokenizer.model_max_length)
            probe.cut_embeddings(model, collator, encoded, dataset.head)
            runner = Runner(
                model, encoded, collator, dataset.head, hp, micro_batch, precision, free, probe.overhead_tokens(model, self.device)
            )
            # The library's objects live as long as the process: the collector need not visit them again.
            gc.collect()
            gc.freeze()
        runtime.seed_everything(job.seed)
        with clock("train"):
            fit = runner.fit(job.seed, lambda event, **fields: self.events.emit(event, job=job.id, **fields))
        facts.update(steps=fit.steps, best_step=fit.best_step, validation_losses=fit.validation_losses)
        with clock("predict"):
            return predict(runner, dataset)

    def _measure(self, dataset, model, tokenizer, accepted, clock):
        row = read_rows(dataset, "test")[0]
        with clock("predict"):
            inferences, tokens = speed.measure(model, tokenizer, row["text"], accepted)
        return [{"id": row["id"], "inferences_per_second": shorten(inferences), "tokens_per_second": shorten(tokens)}]

    def _precision(self, job):
        wanted = self.batch.hyperparameters.precision
        if wanted == "fp16" and self.device.type == "cpu":
            self.warn_once(job.id, "fp16 needs a GPU: training in fp32")
            return "fp32"
        if wanted == "bf16" and self.device.type == "cuda" and not torch.cuda.is_bf16_supported():
            self.warn_once(job.id, "this GPU has no bf16: training in fp16")
            return "fp16"
        return wanted

    def _predictions(self, job, dataset, facts):
        """Attempts until one succeeds: less at once when memory runs out, fp32 when numbers overflow.

        Every attempt starts from the seed, so that a job's result depends on its micro-batch size only, never on the step at which
        the memory ran out."""
        micro_batch, precision = self.batch.hyperparameters.batch_size, self._precision(job)
        while True:
            try:
                return self._attempt(job, dataset, micro_batch, precision, facts)
            except NoRoomForModel:
                raise
            except OutOfMemory as e:
                if micro_batch == 1:
                    raise OutOfMemory("out of memory even with one sequence at a time") from e
                micro_batch //= 2
                self.events.warn(job.id, f"out of memory ({e}): again with micro-batches of {micro_batch}")
            except NotFinite as e:
                if precision == "fp32":
                    raise
                self.events.warn(job.id, f"{e} in {precision}: again in fp32")
                precision = "fp32"
            self._free()

    def _free(self):
        gc.unfreeze()
        gc.collect()
        if self.device.type == "cuda" and not self.device_lost:
            torch.cuda.empty_cache()

    def run(self, job):
        """Do one job and write its files. Raises Infrastructure when the process cannot go on."""
        dataset = self.batch.datasets[job.dataset]
        self.events.emit("start", job=job.id, dataset=job.dataset, seed=job.seed)
        runtime.reset_peak(self.device)
        if self.meter:
            self.meter.begin()
        facts = {
            "steps": 0, "best_step": 0, "validation_losses": [], "micro_batch": self.batch.hyperparameters.batch_size, "accumulation": 1,
            "precision": self.batch.hyperparameters.precision, "max_length": 0, "parameters": 0, "vocabulary": 0,
            "seconds": {"load": 0.0, "tokenize": 0.0, "train": 0.0, "predict": 0.0},
        }
        predictions, failure, message, lost = None, "", "", None
        try:
            predictions = self._predictions(job, dataset, facts)
        except Failure as e:
            failure, message = e.kind, str(e)
            log(f"job {job.id} failed ({failure}): {message}")
            if e.__cause__ is not None:
                traceback.print_exception(e.__cause__)
        except Exception as e:  # anything else is this program's fault, or the device's
            traceback.print_exc()
            failure, message = "trainer", f"{type(e).__name__}: {str(e)[:300]}"
            if self._is_device_lost():
                self.device_lost = True
                if getattr(e, "error_code", None) != CUDA_ASSERT:
                    failure = "infra"
                lost = Infrastructure(f"the device does not answer any more: {message}")
        self._write(job, facts, predictions, failure, message)
        self.events.emit("job-done", job=job.id, state="failed" if failure else "ok", failure=failure)
        self._free()
        if lost:
            raise lost

    def _is_device_lost(self):
        if self.device.type != "cuda":
            return False
        try:
            torch.zeros(1, device=self.device).item()
        except OUT_OF_MEMORY:
            pass  # it answers
        except RuntimeError:
            return True
        return self.meter.lost()

    def _write(self, job, facts, predictions, failure, message):
        folder = os.path.join(self.out, job.id)
        device = "cpu" if self.batch.datasets[job.dataset].head == "speed" else self.device.type
        measured = self.meter.end() if self.meter else None
        if device == "cpu":
            facts["energy"] = {"joules": 0, "source": "none"}
        elif measured:
            facts["energy"] = measured
        outcome = {
            "protocol": PROTOCOL, "job": job.id, "state": "failed" if failure else "ok", "failure": failure, "message": message,
            "threads": self.threads, **facts,
            "peak_memory_mb": {
                "host": round(runtime.peak_host_mb(), 1),
                "device": 0 if self.device_lost else round(runtime.peak_device_mb(self.device), 1),
            },
            "device": device,
            "device_name": "" if self.device_lost else runtime.device_name(self.device),
            "versions": runtime.versions(),
        }
        try:
            os.makedirs(folder, exist_ok=True)
            if predictions is not None:
                write_atomically(os.path.join(folder, "predictions.jsonl"), map(json_line, predictions))
            write_atomically(os.path.join(folder, "outcome.json"), [json_line(outcome)])
        except OSError as e:
            if e.errno in DISK_ERRORS:
                raise Infrastructure(f"cannot write the outcome of job {job.id}: {e}") from e
            raise


class NoRoomForModel(OutOfMemory):
    """The model itself does not fit: smaller micro-batches would not help."""


class Clock:
    """Adds the seconds of a with-block to an entry of a dict."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self, name):
        self.name, self.started = name, time.monotonic()
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.seconds[self.name] = round(self.seconds[self.name] + time.monotonic() - self.started, 3)


def input_names(model):
    """Names of what the model's forward pass takes."""
    parameters = inspect.signature(model.forward).parameters
    names = set(parameters)
    if "input_ids" not in names and any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        names |= {"input_ids", "attention_mask", "token_type_ids"}
    return names
