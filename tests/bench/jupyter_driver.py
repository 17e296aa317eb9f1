"""Holds an ipykernel and does with it what it is told, one line of JSON for each: {"do": ..., "code": ...}.

    run      seconds until the reply and the idle that follows it, `count` times
    restart  while the code runs: interrupts, sees that nothing comes of it, and restarts; seconds until ready

Its first line is "ready" and the kernel's pid.
"""
import json
import subprocess
import sys
import time

from jupyter_client.manager import start_new_kernel

UNHEEDED = 0.5  # seconds in which an interrupt would have been answered
TIMEOUT = 600


def answer(client, request):
    while True:
        message = client.get_shell_msg(timeout=TIMEOUT)
        if message["parent_header"].get("msg_id") == request:
            return message["content"]


def wait_for_idle(client, request):
    while True:
        message = client.get_iopub_msg(timeout=TIMEOUT)
        if (message["parent_header"].get("msg_id") == request and message["msg_type"] == "status"
                and message["content"]["execution_state"] == "idle"):
            return


def run(client, code):
    start = time.perf_counter()
    request = client.execute(code, store_history=False)
    reply = answer(client, request)
    wait_for_idle(client, request)
    took = time.perf_counter() - start
    if reply["status"] != "ok":
        raise SystemExit("\n".join(reply["traceback"]))
    return took


def restart(manager, client, code):
    client.execute(code)
    time.sleep(UNHEEDED)
    manager.interrupt_kernel()
    time.sleep(UNHEEDED)
    if client.shell_channel.msg_ready():
        raise SystemExit("the interrupt was heeded")
    start = time.perf_counter()
    manager.restart_kernel(now=True)
    client.wait_for_ready()
    return time.perf_counter() - start


def do(manager, client, do, code, count=1):
    """Seconds of each."""
    if do == "restart":
        return [restart(manager, client, code)]
    return [run(client, code) for _ in range(count)]


def main():
    manager, client = start_new_kernel(kernel_name="python3", cwd=sys.argv[1], stderr=subprocess.DEVNULL)
    try:
        print("ready", manager.provisioner.pid, flush=True)
        for line in sys.stdin:
            print(*do(manager, client, **json.loads(line)), flush=True)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
