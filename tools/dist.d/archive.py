"""Packs a folder beside itself as .tar.gz, or .zip if it is for Windows, writes NAME.sha256, and prints the archive's name.

The same files make the same bytes: names are sorted, and owners and times are nobody's and the commit's."""

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import time
import zipfile

folder = sys.argv[1].rstrip("/")
parent, name = os.path.split(folder)
when = int(subprocess.run(["git", "log", "-1", "--format=%ct"], check=True, capture_output=True, text=True).stdout)
files = sorted(os.path.join(at, file) for at, _, inside in os.walk(folder) for file in inside)


def mode(path):
    return 0o755 if os.path.splitext(os.path.basename(path))[0] == "cofill" and os.path.dirname(path) == folder else 0o644


if name.endswith("-windows-msvc"):
    archive = f"{folder}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in files:
            entry = zipfile.ZipInfo(os.path.relpath(path, parent).replace(os.sep, "/"), time.gmtime(when)[:6])
            entry.external_attr = mode(path) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with open(path, "rb") as file:
                zipped.writestr(entry, file.read())
else:
    archive = f"{folder}.tar.gz"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in files:
            entry = tar.gettarinfo(path, os.path.relpath(path, parent))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime, entry.mode = when, mode(path)
            with open(path, "rb") as file:
                tar.addfile(entry, file)
    with open(archive, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as zipped:
        zipped.write(packed.getvalue())

with open(archive, "rb") as file:
    digest = hashlib.sha256(file.read()).hexdigest()
# As sha256sum -c reads it, with the line end that it wants on every system.
with open(f"{archive}.sha256", "w", newline="\n") as file:
    file.write(f"{digest}  {os.path.basename(archive)}\n")
print(archive)
