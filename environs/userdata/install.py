"""Fetches the machine's agent from the controller, unless it is there already.

usage: install.py SOURCES

SOURCES is a JSON file: where packages of the agent are, and what they must be
like. Nothing is put in place that has not the announced size and SHA-256. Exits
with 0 if the agent is in place, else with 1 and one line on standard error.
"""

import hashlib
import http.client
import json
import os
import platform
import shutil
import socket
import ssl
import sys
import tarfile

PROGRAM = "provisionerd"
TIMEOUT = 60  # seconds without any progress
MEMBER_LIMIT = 1 << 30  # bytes of the unpacked program


class Connection(http.client.HTTPSConnection):
    """Connects to one address, and demands a certificate for another name."""

    def __init__(self, host, port, name, ca):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(cadata=ca)
        super().__init__(host, port, timeout=TIMEOUT, context=context)
        self.pinned = (context, name)

    def connect(self):
        context, name = self.pinned
        plain = socket.create_connection((self.host, self.port), self.timeout)
        self.sock = context.wrap_socket(plain, server_hostname=name)


def download(source, name, ca, to):
    connection = Connection(source["host"], int(source["port"]), name, ca)
    try:
        connection.request("GET", source["path"])
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError("answered %d %s" % (response.status, response.reason))
        digest, left = hashlib.sha256(), source["size"]
        while True:
            part = response.read(min(1 << 16, left + 1))
            if not part:
                break
            left -= len(part)
            if left < 0:
                raise ValueError("sent more than the announced %d bytes" % source["size"])
            digest.update(part)
            to.write(part)
        if left > 0:
            raise ValueError("sent %d bytes less than announced" % left)
        if digest.hexdigest() != source["sha256"]:
            raise ValueError("sent a package whose SHA-256 is %s instead of %s" % (digest.hexdigest(), source["sha256"]))
    finally:
        connection.close()
    to.flush()


def unpack(package, directory):
    with tarfile.open(package, "r:gz") as archive:
        for member in archive:
            if member.name in (PROGRAM, "./" + PROGRAM) and member.isreg() and member.size <= MEMBER_LIMIT:
                break
        else:
            raise ValueError("the package has no program called " + PROGRAM)
        path = os.path.join(directory, PROGRAM)
        with archive.extractfile(member) as program, open(path, "wb") as to:
            shutil.copyfileobj(program, to)
            to.flush()
            os.fsync(to.fileno())
        os.chmod(path, 0o755)


def install(source, config):
    top = config["directory"]
    directory = os.path.join(top, source["version"])
    part, link = directory + ".part", os.path.join(top, "current.part")
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part, mode=0o755)
    package = os.path.join(part, "package")
    with open(package, "wb") as to:
        download(source, config["server-name"], config["ca-cert"], to)
    unpack(package, part)
    os.remove(package)
    shutil.rmtree(directory, ignore_errors=True)
    os.rename(part, directory)
    if os.path.lexists(link):
        os.remove(link)
    os.symlink(source["version"], link)
    os.rename(link, os.path.join(top, "current"))
    os.sync()


def main():
    with open(sys.argv[1]) as f:
        config = json.load(f)
    os.umask(0o022)
    if os.access(os.path.join(config["directory"], "current", PROGRAM), os.X_OK):
        return None
    wanted = [s for s in config["sources"] if s["arch"] == platform.machine()]
    if not wanted:
        return "no package of the agent is for %s" % platform.machine()
    failure = None
    for source in wanted:
        try:
            install(source, config)
            return None
        except Exception as e:  # whatever it is, the next source may not have it
            failure = "%s:%s: %s" % (source["host"], source["port"], e)
    return failure


if __name__ == "__main__":
    why = main()
    if why is not None:
        sys.exit("cannot fetch the agent from the controller, will try again: " + why)
