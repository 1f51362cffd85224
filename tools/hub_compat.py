"""The other side of tools/hub-compat: a hub on the loopback, and what huggingface_hub makes of a cache."""

import hashlib
import http.server
import json
import os
import sys

COMMIT = "0123456789abcdef0123456789abcdef01234567"
# `serve FOLDER [NAME]`: the folder under a name.
REPO = sys.argv[3] if len(sys.argv) > 3 else "org/tiny"
NEEDED = ["config.json", "tokenizer.json", "model.safetensors"]


def etag(name, data):
    if name.endswith(".safetensors"):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def serve(folder, _name=REPO):
    files = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            files[name] = file.read()

    def sibling(name, data):
        entry = {"rfilename": name, "size": len(data), "blobId": etag("small", data)}
        if name.endswith(".safetensors"):
            entry["lfs"] = {"sha256": etag(name, data), "size": len(data), "pointerSize": 134}
        return entry

    listing = {"id": REPO, "modelId": REPO, "sha": COMMIT, "private": False, "tags": [], "downloads": 0, "likes": 0,
               "siblings": [sibling(name, data) for name, data in files.items()]}
    tree = [{"type": "file", "path": name, "size": len(data), "oid": etag("small", data)} |
            ({"lfs": {"oid": etag(name, data), "size": len(data), "pointerSize": 134}} if name.endswith(".safetensors") else {})
            for name, data in files.items()]

    class Hub(http.server.BaseHTTPRequestHandler):
        def answer(self, body):
            path = self.path.split("?")[0]
            headers, data = {}, None
            if path.startswith(f"/api/models/{REPO}/tree/"):
                data = json.dumps(tree).encode()
            elif path.startswith(f"/api/models/{REPO}"):
                data = json.dumps(listing).encode()
            elif path.startswith(f"/{REPO}/resolve/"):
                name = path.split("/", 5)[5]
                if name in files:
                    data = files[name]
                    headers = {"ETag": f'"{etag(name, data)}"', "X-Repo-Commit": COMMIT}
            self.send_response(404 if data is None else 200)
            if data is None:
                headers, data = {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, b""
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body:
                self.wfile.write(data)

        def do_GET(self):
            self.answer(True)

        def do_HEAD(self):
            self.answer(False)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def read():
    from huggingface_hub import hf_hub_download, snapshot_download
    for name in NEEDED:
        path = hf_hub_download(REPO, name, local_files_only=True)
        with open(path, "rb") as file:
            blob = os.path.basename(os.path.realpath(path))
            assert etag(name, file.read()) == blob, (name, blob)
        print("found", name, "as blob", blob[:12])
    print("snapshot", os.path.basename(snapshot_download(REPO, local_files_only=True)))
    scan()


def scan():
    from huggingface_hub import scan_cache_dir
    found = scan_cache_dir()
    assert not found.warnings, found.warnings
    for repo in found.repos:
        for revision in repo.revisions:
            print("scan:", repo.repo_id, revision.commit_hash[:7], sorted(revision.refs), len(revision.files), "files", revision.size_on_disk, "bytes")


def pull():
    from huggingface_hub import hf_hub_download
    for name in NEEDED + ["tokenizer_config.json", "generation_config.json"]:
        try:
            hf_hub_download(REPO, name)
        except Exception as error:  # not every model has every file
            print("no", name, type(error).__name__)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
