"""What the GPU uses, and whether it is still there: NVIDIA's management library (NVML), read through ctypes.

Names, arguments and codes are those of nvml.h. Nothing here needs torch."""

import ctypes
import os
import threading
import time

NOT_SUPPORTED = 3
MIG_ENABLED = 1
CONTROL_DEVICE = "/dev/nvidiactl"
SAMPLE_SECONDS = 0.5


class NvmlError(Exception):
    """A call of the library failed; code is its nvmlReturn_t, or −1 if the library has no such function."""

    def __init__(self, function, code):
        super().__init__(f"{function}: error {code} of NVML")
        self.code = code


class Card:
    """One GPU as the library sees it. uuid is "GPU-…"; None: the only one there is. Raises NvmlError when it cannot be had."""

    def __init__(self, library, uuid):
        self._library = library
        self._call("nvmlInit_v2")
        self._handle = ctypes.c_void_p()
        try:
            self._find(uuid)
        except NvmlError:
            self.close()
            raise

    def _find(self, uuid):
        if uuid is None:
            count = ctypes.c_uint()
            self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
            if count.value != 1:
                raise NvmlError("nvmlDeviceGetCount_v2", NOT_SUPPORTED)
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(0), ctypes.byref(self._handle))
        else:
            self._call("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(uuid.encode()), ctypes.byref(self._handle))

    def _call(self, function, *arguments):
        try:
            code = getattr(self._library, function)(*arguments)
        except AttributeError:  # of an old driver
            code = -1
        if code != 0:
            raise NvmlError(function, code)

    def _number(self, function, kind):
        value = kind()
        self._call(function, self._handle, ctypes.byref(value))
        return value.value

    def joules(self):
        """What the card has used since its driver was loaded (Volta and later)."""
        return self._number("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong) / 1000

    def watts(self):
        return self._number("nvmlDeviceGetPowerUsage", ctypes.c_uint) / 1000

    def sliced(self):
        """Whether the card is divided (MIG): then its counters are of all slices together."""
        current, pending = ctypes.c_uint(), ctypes.c_uint()
        try:
            self._call("nvmlDeviceGetMigMode", self._handle, ctypes.byref(current), ctypes.byref(pending))
        except NvmlError:
            return False  # most cards cannot be divided
        return current.value == MIG_ENABLED

    def close(self):
        try:
            self._call("nvmlShutdown")
        except NvmlError:
            pass


class Counter:
    """Energy by the card's own counter."""

    source = "nvml"

    def __init__(self, card):
        self._card = card
        self._begin = card.joules()

    def joules(self):
        return self._card.joules() - self._begin


class Samples:
    """Energy by the card's power, looked at again and again; the power between two looks is taken for their mean."""

    source = "power"

    def __init__(self, card, every=SAMPLE_SECONDS):
        self._card = card
        self._sum = 0.0
        self._error = None
        self._last = time.monotonic(), card.watts()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(every,), daemon=True)
        self._thread.start()

    def _run(self, every):
        while not self._end.wait(every):
            self._look()
            if self._error:
                return

    def _look(self):
        try:
            now, watts = time.monotonic(), self._card.watts()
        except NvmlError as e:
            self._error = e
            return
        self._sum += (now - self._last[0]) * (watts + self._last[1]) / 2
        self._last = now, watts

    def joules(self):
        self._end.set()
        self._thread.join()
        if not self._error:
            self._look()
        if self._error:
            raise self._error
        return self._sum


class Meter:
    """The energy of one GPU between begin() and end(), by the best means there is.

    library is libnvidia-ml.so.1 or something with the same functions; None: there is none, and nothing is measured."""

    def __init__(self, library, uuid, control_device=CONTROL_DEVICE):
        self._library, self._uuid, self._control_device = library, uuid, control_device
        self._open = None
        self._worked = self._answers()
        self._measure = self._worked and not self._sliced()
        self._readable = self._device_file()

    def _card(self):
        if self._library is None:
            raise NvmlError("dlopen", -1)
        return Card(self._library, self._uuid)

    def _answers(self):
        try:
            self._card().close()
        except NvmlError:
            return False
        return True

    def _sliced(self):
        card = self._card()
        try:
            return card.sliced()
        finally:
            card.close()

    def _device_file(self):
        try:
            os.close(os.open(self._control_device, os.O_RDWR))
        except OSError:
            return False
        return True

    def begin(self):
        self.end()
        if not self._measure:
            return
        try:
            card = self._card()
        except NvmlError:
            return
        for method in (Counter, Samples):
            try:
                self._open = card, method(card)
                return
            except NvmlError:
                pass
        card.close()

    def end(self):
        """{"joules", "source"} since begin(); None if it could not be measured."""
        if self._open is None:
            return None
        card, method = self._open
        self._open = None
        try:
            joules = method.joules()
        except NvmlError:
            return None
        finally:
            card.close()
        # A counter that runs backwards was set to 0 meanwhile: the driver was loaded anew.
        return {"joules": round(joules, 1), "source": method.source} if joules >= 0 else None

    def lost(self):
        """Whether the GPU was there when the meter was made and has been taken away since.

        That is what systemd does when it loads its units anew and writes the rules of the container's devices without NVIDIA's:
        what is open goes on, everything new fails with whatever error the library at hand makes of it."""
        if self._readable and not self._device_file():
            return True
        return self._worked and not self._answers()


def load():
    """The driver's library; None if there is none."""
    try:
        return ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None


def driver_is_there():
    """Whether this process was given a GPU: the executor says so, and the driver's library or device file is there."""
    given = os.environ.get("NVIDIA_VISIBLE_DEVICES", "") not in ("", "void", "none")
    return given and (load() is not None or os.path.exists(CONTROL_DEVICE))
