"""Write requirements.txt beside this file: every package of a server, to the last digit, with the hashes of its files.

    python deploy/lock.py                        # after requirements.txt of the app has changed; needs pip-tools
    TORCH_WHEEL=torch-*.whl python deploy/lock.py  # with PyTorch's file at hand, so that it isn't downloaded

PyTorch comes from its own index, as the small build for the CPU, by address and hash: no second index is searched, so
none can slip in a package under a name that another one serves.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCK = HERE / "requirements.txt"
ASKED = HERE.parent / "requirements.txt"

WHEEL = (
    "https://download.pytorch.org/whl/cpu/torch-{version}%2Bcpu-cp311-cp311-manylinux_2_28_{machine}.whl"  # Python 3.11
)
HASHES = {
    "2.13.0": {
        "x86_64": "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
        "aarch64": "84453b69508ec79902f899c5ed9495acb9e2bbe9fda5f1d5d6f19e3c3842e1a7",
    }
}
"""sha256 of PyTorch's builds for the CPU, as its index lists them."""

HEAD = """\
# Every package of a server with the hashes of its files, for Python 3.11 on Linux. Made by `make lock`, not by hand.

"""


def main() -> None:
    (version,) = re.findall(r"^torch==(\S+)$", ASKED.read_text(encoding="utf-8"), re.MULTILINE)
    hashes = HASHES[version]
    given = os.environ.get("TORCH_WHEEL")
    here = Path(given).resolve().as_uri() if given else WHEEL.format(version=version, machine=os.uname().machine)
    asked = ASKED.read_text(encoding="utf-8").replace(f"torch=={version}\n", f"torch @ {here}\n")
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "requirements.in", Path(folder) / "requirements.txt"
        source.write_text(asked, encoding="utf-8")
        options = ["--generate-hashes", "--allow-unsafe", "--strip-extras", "--no-annotate", "--no-header", "--quiet"]
        options += ["--no-emit-index-url", "--no-emit-find-links", "--output-file", str(made)]
        subprocess.run([sys.executable, "-m", "piptools", "compile", *options, str(source)], check=True)  # noqa: S603
        found = made.read_text(encoding="utf-8")
    torch = "".join(
        f'torch @ {WHEEL.format(version=version, machine=machine)} ; platform_machine == "{machine}" \\\n'
        f"    --hash=sha256:{digest}\n"
        for machine, digest in hashes.items()
    )
    packages = re.findall(r"^[a-z].*(?:\n    .*)*\n", found, re.MULTILINE | re.IGNORECASE)
    locked = [torch if package.startswith("torch @") else package for package in packages]
    if torch not in locked:
        raise SystemExit("pip-compile gave no torch")
    LOCK.write_text(HEAD + "".join(locked), encoding="utf-8")


if __name__ == "__main__":
    main()
