#!/bin/sh
# Installs the cofill program that was built for this machine.
#
#   curl -fsSL https://github.com/cofill/cofill/releases/latest/download/install.sh | sh
#   sh install.sh [--to DIR] [--version X.Y.Z]
#
#   --to DIR          where to put it (default: ~/.local/bin)
#   --version X.Y.Z   which release (default: the one this script came with)
#
# $COFILL_DOWNLOAD is an address to take the archive from instead of the project's releases: http://, https:// or file://.
# It asks for no password, changes nothing but DIR/cofill, and that only at the very end, when everything has been checked.
set -eu

# The release that this script belongs to; a test compares it with Cargo.toml.
version=0.1.0
releases=https://github.com/cofill/cofill/releases/download

fail() {
  printf 'error: %s\n' "$1" >&2
  exit "${2:-1}"
}

from_source='build it instead: cargo install cofill-cli --locked (https://rustup.rs has cargo)'

# The name of the build that runs here, or a refusal with a remedy.
platform() {
  system=$(uname -s)
  machine=$(uname -m)
  case $machine in
  x86_64 | amd64) machine=x86_64 ;;
  aarch64 | arm64) machine=aarch64 ;;
  *) fail "there is no build for \`$machine\`; $from_source" 2 ;;
  esac
  case $system in
  Linux)
    libc=$(getconf GNU_LIBC_VERSION 2> /dev/null || true) # glibc 2.36
    case $libc in
    "glibc "*) ;;
    *) fail "there is no build for this Linux: it has no glibc (musl, as on Alpine?); $from_source" 2 ;;
    esac
    major=${libc#glibc }
    minor=${major#*.}
    major=${major%%.*}
    minor=${minor%%.*}
    if [ "$major" -lt 2 ] || { [ "$major" -eq 2 ] && [ "$minor" -lt 17 ]; }; then
      fail "this Linux has $libc, and the build needs 2.17 or newer; $from_source" 2
    fi
    target=$machine-unknown-linux-gnu ;;
  Darwin) target=$machine-apple-darwin ;;
  MINGW* | MSYS* | CYGWIN* | Windows*)
    fail "this script is for Linux and macOS; for Windows, unpack cofill-$version-x86_64-pc-windows-msvc.zip of the release" 2 ;;
  *) fail "there is no build for \`$system\`; $from_source" 2 ;;
  esac
}

# download ADDRESS FILE
download() {
  case $1 in
  file://*) cp "${1#file://}" "$2" 2> /dev/null ;;
  *)
    if command -v curl > /dev/null; then
      curl -fsSL --retry 3 -o "$2" "$1"
    elif command -v wget > /dev/null; then
      wget -q -O "$2" "$1"
    else
      fail "neither curl nor wget is here; install one of them, or download $1 by hand"
    fi ;;
  esac || fail "cannot download $1; is there a network, and does that release exist? $from_source"
}

# What computes a checksum here, before anything is downloaded that could not be checked.
checker() {
  if command -v sha256sum > /dev/null; then
    sha256=sha256sum
  elif command -v shasum > /dev/null; then
    sha256='shasum -a 256'
  else
    fail "neither sha256sum nor shasum is here, so the archive cannot be checked; install one of them"
  fi
}

main() {
  to=
  while [ $# -gt 0 ]; do
    case $1 in
    --to | --version)
      [ $# -ge 2 ] || fail "$1 needs a value; see --help" 2
      case $1 in --to) to=$2 ;; --version) version=$2 ;; esac
      shift 2 ;;
    -h | --help)
      cat << 'HELP'
Installs the cofill program that was built for this machine.

  sh install.sh [--to DIR] [--version X.Y.Z]

  --to DIR          where to put it (default: ~/.local/bin)
  --version X.Y.Z   which release (default: the one this script came with)

$COFILL_DOWNLOAD is an address to take the archive from instead of the
project's releases: http://, https:// or file://.
HELP
      exit ;;
    *) fail "unknown argument \`$1\`; expected --to DIR or --version X.Y.Z" 2 ;;
    esac
  done
  case $version in
  *[!0-9A-Za-z.+-]* | '') fail "--version is \`$version\`, but must be like 0.1.0" 2 ;;
  esac
  if [ -z "$to" ]; then
    [ -n "${HOME:-}" ] || fail "HOME is not set; say where with --to DIR" 2
    to=$HOME/.local/bin
  fi
  platform
  checker
  name=cofill-$version-$target
  archive=$name.tar.gz
  base=${COFILL_DOWNLOAD:-$releases/v$version}

  mkdir -p "$to" || fail "cannot make \`$to\`; choose another place with --to DIR" 2
  to=$(cd "$to" && pwd)
  [ ! -d "$to/cofill" ] || fail "\`$to/cofill\` is a folder; choose another place with --to DIR" 2
  # Beside where it goes, so that the last step is one rename.
  work=$(mktemp -d "$to/.cofill-install.XXXXXX") || fail "cannot write to \`$to\`; choose another place with --to DIR" 2
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP

  printf 'downloading %s\n' "$base/$archive" >&2
  download "$base/$archive.sha256" "$work/sha256"
  download "$base/$archive" "$work/$archive"
  expected=$(cut -d ' ' -f 1 < "$work/sha256")
  [ ${#expected} -eq 64 ] || fail "$base/$archive.sha256 is no checksum; try again later"
  given=$($sha256 < "$work/$archive" | cut -d ' ' -f 1)
  [ "$given" = "$expected" ] ||
    fail "the archive is damaged or not the one that was released: its SHA-256 is $given, but must be $expected; nothing was installed, try again"
  tar -xzf "$work/$archive" -C "$work" || fail "the archive cannot be unpacked; nothing was installed"
  new=$work/$name/cofill
  [ -f "$new" ] || fail "the archive has no $name/cofill; nothing was installed"
  chmod 755 "$new"
  said=$("$new" --version) || fail "the program does not run on this machine; nothing was installed; $from_source"

  before=
  if [ -e "$to/cofill" ]; then
    before=$("$to/cofill" --version 2> /dev/null || true)
    before=" (before: ${before:-another file})"
  fi
  mv -f "$new" "$to/cofill" || fail "cannot write \`$to/cofill\`; choose another place with --to DIR"
  printf '%s is now %s%s\n' "$to/cofill" "$said" "$before" >&2
  case ":${PATH:-}:" in
  *":$to:"*) ;;
  *) printf 'put it on your path: export PATH="%s:$PATH"\n' "$to" >&2 ;;
  esac
  printf 'try: cofill generate --show\n' >&2
}

# On the last line, so that a script of which only a part arrived does nothing.
main "$@"
