"""The app for a class, from one laptop and without internet: `make classroom`, or `python deploy/classroom.py`.

    --pack             only fill the folder wheels, at home, where there is internet
    --address 10.0.0.5 where students reach this laptop, if the guess is wrong
    --port 8501        another port
    --quiet            do not open the page with the QR code

The folder wheels, beside this file, holds every package that is needed: copy the whole repository with it to another
laptop of the same kind, and it needs no internet there. This file needs nothing but Python.
"""

# ruff: noqa: S603, T201  (it talks to a person, and starts Python and pip)

from __future__ import annotations

import argparse
import contextlib
import html
import importlib.metadata
import io
import ipaddress
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
import webbrowser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ASKED = (ROOT / "requirements.txt", ROOT / "deploy" / "requirements-classroom.txt")
WHEELS = ROOT / "deploy" / "wheels"
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
AGAIN = "ATTENTION_CLASSROOM_IN_VENV"
"""Set in the environment of this file where it has started itself with the Python of .venv."""
TORCH_FOR_THE_CPU = "https://download.pytorch.org/whl/cpu"

# where no packet is sent: only which of this laptop's addresses one would leave from is asked
ELSEWHERE = ("192.0.2.1", "10.255.255.255", "172.31.255.255", "192.168.255.255")
SIOCGIFADDR = 0x8915
"""Linux's question for the address of an interface."""

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{words}</title>
<style>
  body {{ background: #fff; color: #1c2530; font: 8vmin sans-serif; margin: 3vmin; text-align: center }}
  svg {{ display: block; height: 75vmin; margin: 2vmin auto }}
</style>
{words}
{code}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="The app for a class, from one laptop and without internet.")
    parser.add_argument("--pack", action="store_true", help="only fill the folder wheels, where there is internet")
    parser.add_argument("--address", help="where students reach this laptop, if the guess is wrong")
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--quiet", action="store_true", help="do not open the page with the QR code")
    given = parser.parse_args()
    if not PYTHON.exists():
        venv.create(VENV, with_pip=True)
    if not VENV.samefile(sys.prefix):
        if AGAIN in os.environ:  # its Python belongs elsewhere, and would start itself for ever
            print("The folder .venv is no environment of Python's. Remove it, then try again.", file=sys.stderr)
            return 1
        return subprocess.call([PYTHON, __file__, *sys.argv[1:]], env=os.environ | {AGAIN: "1"})
    if given.pack:
        return 0 if pack() else 1
    if missing() and not install():
        print("The packages could not be installed; with internet they can.", file=sys.stderr)
        return 1
    address = given.address or guess()
    if address is None:
        print(
            "This laptop is in no network. Join the class's Wi-Fi or open a hotspot, then try again.", file=sys.stderr
        )
        return 1
    return serve(address, given.port, given.quiet)


# --- packages -------------------------------------------------------------------------------------------------------


def pack() -> bool:
    """Fill the folder wheels."""
    print("Packing every package into the folder deploy/wheels, once; it takes a few minutes.", flush=True)
    (torch,) = (line for line in ASKED[0].read_text().splitlines() if line.startswith("torch=="))
    if (
        sys.platform == "linux"
    ):  # where the other index has a build of several GB for graphics cards; this one is enough
        _download("--quiet", "--no-deps", "--retries", "1", "--index-url", TORCH_FOR_THE_CPU, torch)
    return _download("--find-links", str(WHEELS), "--requirement", str(ASKED[1]))


def _download(*options: str) -> bool:
    always = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(WHEELS)]
    return subprocess.call([str(PYTHON), "-m", "pip", "download", *always, *options]) == 0


def missing() -> list[str]:
    """The packages that are asked for and not installed, as "name==version"."""
    asked = [line for path in ASKED for line in path.read_text().splitlines() if "==" in line]
    return [line for line in asked if not _installed(*line.split("=="))]


def _installed(name: str, version: str) -> bool:
    try:
        return importlib.metadata.version(name).partition("+")[0] == version
    except importlib.metadata.PackageNotFoundError:
        return False


def install() -> bool:
    """Install from the folder wheels, and from nowhere else; it is filled first if it is empty."""
    if not list(WHEELS.glob("*.whl")) and not pack():
        return False
    print("Installing from the folder wheels.", flush=True)
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--find-links", str(WHEELS)]
    return subprocess.call([str(PYTHON), "-m", "pip", "install", *options, "--requirement", str(ASKED[1])]) == 0


# --- the network ----------------------------------------------------------------------------------------------------


def guess() -> str | None:
    """This laptop's address in its network, or None."""
    found = [_leaves_from(target) for target in ELSEWHERE]
    with contextlib.suppress(OSError):  # it need not know its own name
        found += [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    if sys.platform == "linux":  # where a laptop that is the hotspot itself leaves from nowhere
        found += [_address_of(name) for _, name in socket.if_nameindex()]
    usable = [each for each in found if each and not ipaddress.ip_address(each).is_loopback]
    return min(usable, key=lambda each: not ipaddress.ip_address(each).is_private, default=None)


def _address_of(interface: str) -> str | None:
    import fcntl  # not everywhere

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            answer = fcntl.ioctl(s, SIOCGIFADDR, interface.encode()[:15].ljust(256, b"\0"))
        except OSError:
            return None  # it has no address
    return socket.inet_ntoa(answer[20:24])


def _leaves_from(target: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect((target, 9))
        except OSError:
            return None
        return str(s.getsockname()[0])


# --- the server -----------------------------------------------------------------------------------------------------


def serve(address: str, port: int, quiet: bool) -> int:
    """Serve the app, show where, and go on until it is ended."""
    url = f"http://{address}" if port == 80 else f"http://{address}:{port}"
    names = ["localhost", "127.0.0.1", address, f"{socket.gethostname().lower()}.local"]
    environment = os.environ | {"STREAMLIT_SERVER_ALLOWED_HOSTS": " ".join(names), "STREAMLIT_SERVER_PORT": str(port)}
    command = [str(PYTHON), "-m", "streamlit", "run", "deploy/hosted.py"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        while process.poll() is None and not _answers(port):
            time.sleep(0.1)
        if process.poll() is None:
            show(url, quiet)
        return process.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5):
            return True
    except OSError:
        return False


def show(url: str, quiet: bool) -> None:
    """Print the address and its QR code, and open a page with both to project."""
    import segno  # it is there by now

    code = segno.make_qr(url)
    drawn = io.StringIO()
    code.terminal(drawn, border=2, compact=True)
    # white on black, whatever the terminal's colours are
    lines = [f"\x1b[97;40m{line}\x1b[0m" if sys.stdout.isatty() else line for line in drawn.getvalue().splitlines()]
    print(f"\n  {url}\n", *lines, sep="\n")
    print("\n  On the same network: type this address, or point a camera at the code. Ctrl+C ends it.\n", flush=True)
    if quiet:
        return
    page = Path(tempfile.mkdtemp(prefix="attention-")) / "classroom.html"
    words = html.escape(re.sub("^http://", "", url))
    page.write_text(PAGE.format(words=words, code=code.svg_inline(border=2, omitsize=True)), encoding="utf-8")
    webbrowser.open(page.as_uri())


if __name__ == "__main__":
    sys.exit(main())
