"""Imports what a worker imports, once, and then forks a worker whenever it is asked for one.

The command line is ``python fork_server.py SOCKET SOURCE -- memorymark.worker.child``; the last word only makes the
process look like the workers that it becomes. A request is a JSON document with three open files: standard input,
output and error. The answer is the process id. A worker is orphaned at once, and so becomes a child of whoever adopts
orphans.
"""

import gc
import json
import os
import socket
import sys
import time


def imported():
    """Imports as workers do, and leaves the garbage collector nothing to look at: its marks would unshare memory."""
    gc.disable()
    import transformers.models.auto.modeling_auto  # noqa: F401

    import memorymark.worker.child  # noqa: F401

    gc.freeze()
    gc.enable()


def forked(files):
    """Forks twice; in the new process ``None``, else its process id."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        os.close(reading)
        pid = os.fork()
        if pid == 0:
            os.close(writing)
            return None
        os.write(writing, str(pid).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        pid = int(pipe.read())
    os.waitpid(between, 0)  # it has gone, so the worker has been adopted
    for file in files:
        os.close(file)
    return pid


def become_worker(wanted, files):
    """Makes this process what ``subprocess.Popen`` would have started, as far as the worker can tell."""
    from memorymark.worker import calls

    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.argv = ["-c", *wanted["arguments"]]
    calls.PROCESS_START = time.perf_counter()
    return wanted["code"]


def next_worker(asked):
    """Serves until this process is a worker; returns the code that it has to run."""
    while True:
        message, files, _, _ = socket.recv_fds(asked, 2**20, 3)
        if not message:
            sys.exit()
        pid = forked(files)
        if pid is None:
            asked.close()
            return become_worker(json.loads(message), files)
        asked.send(str(pid).encode())


if __name__ == "__main__":
    # As for a worker: neither its own folder nor the working directory.
    sys.path[:] = [*sys.path[1:], sys.argv[2]]
    imported()
    code = next_worker(socket.socket(fileno=int(sys.argv[1])))
    exec(code, {"__name__": "__main__"})
