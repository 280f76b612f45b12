"""The meter of energy, on two stand-ins for NVIDIA's library: one in C, loaded as the real one is, and one in Python."""

import ctypes
import os
import pathlib
import shutil
import subprocess
import time

from bench_trainer.energy import Card, Meter, Samples
from helpers import Skip, make_batch, outcome, run_trainer

UUID = "GPU-5f0c2a3e-0000-1111-2222-333344445555"

# What the stand-ins can be told, and what they say at first. Codes are nvmlReturn_t: 3 is "not supported", 6 "not found", 999 "unknown error".
STATE = {"init": 0, "count": 1, "energy": 0, "energy_code": 0, "power": 0, "power_code": 0, "mig": 0, "mig_code": 3, "users": 0}

SOURCE = """
#include <string.h>
%s
static int card;
int nvmlInit_v2(void) { if (!init) users++; return init; }
int nvmlShutdown(void) { users--; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = count; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = &card; return i < count ? 0 : 6; }
int nvmlDeviceGetHandleByUUID(const char *u, void **d) { *d = &card; return strcmp(u, "%s") ? 6 : 0; }
#ifndef OLD
int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *mj) { *mj = energy; return d == &card ? energy_code : 2; }
int nvmlDeviceGetMigMode(void *d, unsigned *current, unsigned *pending) { *current = *pending = mig; return d == &card ? mig_code : 2; }
#endif
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) { *mw = power; return d == &card ? power_code : 2; }
"""


class Python:
    """A stand-in that is no library: ctypes' references are written through."""

    def __init__(self, _folder, old=False):
        self.state = dict(STATE)
        self.library = self
        if old:
            self.hidden = {"nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetMigMode"}

    hidden = frozenset()

    def __getattribute__(self, name):
        if name in object.__getattribute__(self, "hidden"):
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def set(self, name, value):
        self.state[name] = value

    def get(self, name):
        return self.state[name]

    def nvmlInit_v2(self):
        self.state["users"] += not self.state["init"]
        return self.state["init"]

    def nvmlShutdown(self):
        self.state["users"] -= 1
        return 0

    def nvmlDeviceGetCount_v2(self, n):
        n._obj.value = self.state["count"]
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, i, device):
        device._obj.value = 1
        return 0 if i.value < self.state["count"] else 6

    def nvmlDeviceGetHandleByUUID(self, uuid, device):
        device._obj.value = 1
        return 0 if uuid.value.decode() == UUID else 6

    def nvmlDeviceGetTotalEnergyConsumption(self, device, value):
        value._obj.value = self.state["energy"]
        return self.state["energy_code"] if device.value == 1 else 2

    def nvmlDeviceGetMigMode(self, device, current, pending):
        current._obj.value = pending._obj.value = self.state["mig"]
        return self.state["mig_code"] if device.value == 1 else 2

    def nvmlDeviceGetPowerUsage(self, device, value):
        value._obj.value = self.state["power"]
        return self.state["power_code"] if device.value == 1 else 2


def compiled(folder, old=False):
    """Path of the stand-in in C, by the real one's name."""
    compiler = shutil.which("cc")
    if not compiler:
        raise Skip("no C compiler")
    source, library = folder / "nvml.c", folder / "libnvidia-ml.so.1"
    declarations = "".join(f"unsigned long long {name} = {value};\n" for name, value in STATE.items())
    source.write_text(SOURCE % (declarations, UUID))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source] + ["-DOLD"] * old, check=True)
    return library


class C:
    def __init__(self, folder, old=False):
        self.library = ctypes.CDLL(str(compiled(folder, old)))

    def set(self, name, value):
        ctypes.c_ulonglong.in_dll(self.library, name).value = value

    def get(self, name):
        return ctypes.c_ulonglong.in_dll(self.library, name).value


def check(kind, folder):
    """Everything that is asked of a meter, on one kind of stand-in."""

    def make(old=False, uuid=UUID, **state):
        part = folder / f"{len(os.listdir(folder))}"
        part.mkdir()
        fake = kind(part, old)
        for name, value in state.items():
            fake.set(name, value)
        control = part / "nvidiactl"
        control.write_text("")
        return fake, Meter(fake.library, uuid, control), control

    # The counter of the card, in mJ since an unknown moment. More than 32 bits.
    fake, meter, _ = make(energy=2**40)
    assert meter.end() is None, "it was not begun"
    meter.begin()
    fake.set("energy", 2**40 + 12345678)
    assert meter.end() == {"joules": 12345.7, "source": "nvml"} and meter.end() is None
    meter.begin()
    meter.begin()  # the first is forgotten
    fake.set("energy", 5)
    assert meter.end() is None, "the counter began anew"
    assert fake.get("users") == 0 and not meter.lost()

    # Without a counter, the power: 250 W all the time.
    for fake, meter, _ in (make(energy_code=3, power=250_000), make(old=True, power=250_000)):
        started = time.monotonic()
        meter.begin()
        time.sleep(0.1)
        got = meter.end()
        took = time.monotonic() - started
        assert got["source"] == "power" and 250 * 0.1 <= got["joules"] <= 250 * took + 0.1, (got, took)
        assert fake.get("users") == 0
    # A power that rises in steps is followed, not only looked at twice.
    fake, _, _ = make(power=0)
    samples = Samples(Card(fake.library, UUID), 0.01)
    time.sleep(0.2)
    fake.set("power", 1_000_000)
    time.sleep(0.2)
    fake.set("power", 0)
    time.sleep(0.2)
    assert 120 < samples.joules() < 400, samples.joules()  # about 200 J; two looks would give 0

    # What cannot be known is not guessed.
    for name, (_, meter, _) in {
        "neither": make(energy_code=3, power_code=3), "a slice": make(mig=1, mig_code=0), "another card": make(uuid="GPU-0"),
        "which of two": make(uuid=None, count=2), "no driver": make(init=9),
    }.items():
        meter.begin()
        assert meter.end() is None, name
    fake, meter, _ = make(mig=0, mig_code=0, uuid=None)  # the only card needs no name; it could be divided and is not
    meter.begin()
    fake.set("energy", 1000)
    assert meter.end() == {"joules": 1.0, "source": "nvml"}
    meter.begin()
    fake.set("energy_code", 15)  # lost meanwhile
    assert meter.end() is None and fake.get("users") == 0

    # Taken away: NVML does not start any more, or its device may not be opened.
    fake, meter, control = make()
    assert not meter.lost()
    fake.set("init", 999)
    assert meter.lost()
    fake.set("init", 0)
    assert not meter.lost()
    control.unlink()
    assert meter.lost()
    fake, meter, control = make(init=9)
    control.unlink()
    _, never, _ = make(uuid="GPU-0")
    assert not never.lost(), "what was never there cannot be lost"


def test_energy_with_a_stand_in_in_python(tmp_path):
    check(Python, tmp_path)


def test_energy_with_a_stand_in_in_c(tmp_path):
    check(C, tmp_path)


def test_energy_without_a_library(tmp_path):
    meter = Meter(None, UUID, tmp_path / "nvidiactl")
    meter.begin()
    assert meter.end() is None and not meter.lost()


def test_a_gpu_that_was_given_and_cannot_be_used(tmp_path):
    batch = make_batch(tmp_path, ["sentiment"], [("x", "sentiment", 1)], hyperparameters={"max_steps": 2})
    batch.write_text(batch.read_text().replace('"device": "cpu"', '"device": "auto"'))
    given = {"NVIDIA_VISIBLE_DEVICES": UUID}
    # The driver is there, CUDA does not start: the surroundings' fault. Nothing is trained on the processor instead.
    library = compiled(pathlib.Path(tmp_path))
    events = run_trainer(batch, tmp_path / "out", code=75, env=given | {"LD_LIBRARY_PATH": str(library.parent)})
    assert [e["event"] for e in events] == ["warn"] and "cannot be used" in events[0]["message"]
    assert not (tmp_path / "out/x/outcome.json").exists()
    # No driver at all: the host gives GPUs that are none. It says so and goes on.
    events = run_trainer(batch, tmp_path / "out", env=given)
    assert "training on the processor" in events[0]["message"] and outcome(tmp_path / "out", "x")["device"] == "cpu"
    # Without a GPU there is nothing to say.
    events = run_trainer(batch, tmp_path / "other", env={"NVIDIA_VISIBLE_DEVICES": "void"})
    assert events[0]["event"] == "start"


def test_a_lost_device_is_told_from_a_fault(tmp_path):
    """After an error without a kind of its own: the device is tried, then NVML, whatever the error said."""
    from types import SimpleNamespace

    from bench_trainer import session

    def lost(answer, fake_state=0):
        fake = Python(tmp_path)
        one = session.Session.__new__(session.Session)
        one.device, one.meter = SimpleNamespace(type="cuda"), Meter(fake, UUID, tmp_path / "nvidiactl")
        fake.set("init", fake_state)
        real, session.torch = session.torch, SimpleNamespace(zeros=answer)
        try:
            return one._is_device_lost()
        finally:
            session.torch = real

    def fails(error):
        def zeros(*_, **__):
            raise error

        return zeros

    def works(*_, **__):
        return SimpleNamespace(item=lambda: 0.0)

    assert not lost(works)
    assert lost(fails(RuntimeError("CUDA error: unspecified launch failure")))
    assert not lost(fails(MemoryError())), "a device that is full answers"
    # Computing goes on in a container that has lost its GPU, until something new is opened.
    assert lost(works, 999) and lost(fails(MemoryError()), 999)
