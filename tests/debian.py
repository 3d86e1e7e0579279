"""Install what the tests need from Debian's packages, where that is possible: as root, with apt-get."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def install(packages: list[str]) -> bool:
    """Install packages; says whether it succeeded, and why not."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print("Debian's packages need apt-get and root.", file=sys.stderr)
        return False
    install_command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    return all(succeeds(command) for command in (["apt-get", "update"], install_command))


def succeeds(command: list[str]) -> bool:
    """Run a command and say whether it succeeded; its output is shown only if it did not."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        print("\n".join((done.stdout + done.stderr).splitlines()[-20:]), file=sys.stderr)
    return done.returncode == 0
