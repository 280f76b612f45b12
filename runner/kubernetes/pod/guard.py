"""Cuts off the network of this process for good and becomes another program.

    python3 -c THIS PROGRAM ARG...

A seccomp filter, which children inherit and nobody can take off again, lets socket() make no sockets but those of this
machine (AF_UNIX) and of its kernel (AF_NETLINK). io_uring, by which sockets can be had without socket(), is refused too,
and so is every other calling convention of the processor, whose calls have other numbers.
"""

import ctypes
import os
import platform
import struct
import sys

# AUDIT_ARCH_*, and the numbers of socket and io_uring_setup (asm/unistd.h).
ARCHITECTURES = {"x86_64": (0xC000003E, 41, 425), "aarch64": (0xC00000B7, 198, 425)}
X32 = 0x40000000  # x86-64 calls with 32-bit pointers
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EPERM, EAFNOSUPPORT = 1, 97
AF_UNIX, AF_NETLINK = 1, 16
LOAD, EQUAL, ABOVE, RETURN = 0x20, 0x15, 0x35, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_JMP|JGE|K, BPF_RET|K
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def program(arch, socket, io_uring):
    """The filter: struct seccomp_data has the call at 0, the architecture at 4, the first argument at 16."""
    steps = [
        (LOAD, 0, 0, 4),
        (EQUAL, 0, 8, arch),  # else 10
        (LOAD, 0, 0, 0),
        (ABOVE, 6, 0, X32),  # 10
        (EQUAL, 5, 0, io_uring),  # 10
        (EQUAL, 0, 5, socket),  # else 11
        (LOAD, 0, 0, 16),
        (EQUAL, 3, 0, AF_UNIX),  # 11
        (EQUAL, 2, 0, AF_NETLINK),  # 11
        (RETURN, 0, 0, ERRNO | EAFNOSUPPORT),
        (RETURN, 0, 0, ERRNO | EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *s) for s in steps), len(steps)


def give_up(why):
    print("bench:", why, file=sys.stderr)
    sys.exit(70)  # a fault of the trainer


def main():
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        give_up(f"the network cannot be cut off on a {machine}")
    code, steps = program(*ARCHITECTURES[machine])
    text = ctypes.create_string_buffer(code, len(code))
    filter_ = ctypes.create_string_buffer(struct.pack("HP", steps, ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    for args in (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0):
        if libc.prctl(*(ctypes.c_ulong(a) if isinstance(a, int) else a for a in args)) != 0:
            give_up(f"the network cannot be cut off: {os.strerror(ctypes.get_errno())}")
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as e:
        give_up(f"{sys.argv[1]} cannot be started: {e.strerror}; entrypoint: must name the image's own")


main()
