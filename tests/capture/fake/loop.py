"""A training loop on the fake torch; its arguments tell it how to misbehave."""

import os
import signal
import subprocess
import sys
import time

import torch

steps, *tricks = sys.argv[1:]
if "ignore-sigterm" in tricks:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "helper" in tricks:
    print("helper", subprocess.Popen(["sleep", "600"]).pid)
if "deaf" in tricks:
    print("waiting for a lock")
    time.sleep(600)
if "bytes" in tricks:
    sys.stdout.buffer.write(b"caf\xe9 \xff\x00 \xe2\x82\n")
if "lines" in tricks:
    for number in range(1_000_000):
        print(f"line {number} of a script that prints very much")
if "exit" in tricks:
    sys.exit(3)
print("stdin holds", repr(sys.stdin.read()))
optimizer = torch.optim.SGD()
for step in range(int(steps)):
    time.sleep(0.002)
    if step == 3 and "odd" in tricks:
        raise ValueError("no file caf\udce9")
    if step == 3 and "raise" in tricks:
        raise ValueError("loss is nan")
    if step == 3 and "vanish" in tricks:
        os._exit(0)
    if step == 3 and f"die{os.environ.get('RANK')}" in tricks:
        print("about to die")
        os.kill(os.getpid(), signal.SIGKILL)
    if step == 1 and f"late{os.environ.get('RANK')}" in tricks:
        time.sleep(3)  # the others have written their traces by then
        os.kill(os.getpid(), signal.SIGKILL)
    if step == 3 and f"raise{os.environ.get('RANK')}" in tricks:
        raise ValueError("loss is nan")
    try:
        optimizer.step()
    except SystemExit:
        if "stubborn" not in tricks:
            raise
print("ended")
