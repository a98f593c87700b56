"""Stands in for the worker process: what comes over the pipe goes to a socket of the test, and back. `relay.py PORT FOLDER`."""

import os
import socket
import sys
import threading

connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))


def out() -> None:
    while data := connection.recv(1 << 16):
        os.write(1, data)
    os._exit(3)


threading.Thread(target=out, daemon=True).start()
while data := os.read(0, 1 << 16):
    connection.sendall(data)
