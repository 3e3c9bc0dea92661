"""Asks repositories through dnf's API. It runs alone, with the Python that has dnf's modules.

One question comes on standard input and one answer goes to standard output, both in JSON. This
Python can be that of RHEL 9 (3.9) and has nothing else of Lockstep. Words marked "no :api" are not
part of dnf's promised interface; dnf's own plugin reposync uses the same ones (dnf-plugins-core
4.3.1, read on 2026-11-24).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, cast

import dnf
import dnf.exceptions
import dnf.module.module_base
import dnf.repo
import hawkey

SHARED = ("proxy", "proxy_username", "proxy_password", "proxy_auth_method", "sslcacert")
"""Settings of this machine's dnf.conf(5) that say how it reaches repositories."""
KERNELS = (
    *("kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-modules-extra"),
    *("kernel-devel", "kernel-devel-matched"),
)
"""Packages of which each kernel has its own version."""
ABSENT = ("Status code: 404", "Status code: 403", "Status code: 410", "(37)")
"""What librepo says of a file that a server does not have; 37 is curl's number for file: URLs.
Servers of object stores answer 403 for a file that is not there."""
LOCKS = "versionlock"
ATTEMPTS = 3

Answer = dict[str, Any]


class Unanswered(Exception):
    """Raised with the message for a question that cannot be answered."""


def _base(asked: Answer, *, cached: bool = True) -> dnf.Base:
    """Return dnf with its root in a folder, and with the repositories of the question."""
    root = asked["root"]
    conf = dnf.conf.Conf()
    own = dnf.conf.Conf()
    own.read()
    for name in SHARED:
        setattr(conf, name, getattr(own, name))
    conf.installroot = f"{root}/installroot"
    for name in ("cachedir", "persistdir", "logdir"):
        setattr(conf, name, f"{root}/{name}")
    conf.reposdir = [f"{root}/sources"]
    conf.pluginconfpath = [f"{root}/installroot/etc/dnf/plugins"]
    conf.substitutions.update_from_etc("/")
    conf.substitutions["releasever"] = asked["releasever"]
    conf.module_platform_id = asked["platform"]
    conf.arch = asked["architecture"]
    conf.ignorearch = True
    conf.check_config_file_age = False
    conf.protect_running_kernel = False
    conf.skip_if_unavailable = False
    # As /etc/dnf/dnf.conf of RHEL 9 and the role packages have it.
    conf.best = True
    conf.install_weak_deps = False
    conf.cacheonly = cached
    base = dnf.Base(conf)
    base.init_plugins(disabled_glob=["*"], enable_plugins=[LOCKS])
    if LOCKS not in [plugin.name for plugin in base._plugins.plugins]:  # no :api
        raise Unanswered("plugin")
    base.pre_configure_plugins()
    base.read_all_repos()
    base.configure_plugins()
    return base


def update(asked: Answer) -> Answer:
    """Read the lists of every repository; return each with its address, its files and its keys."""
    base = _base(asked, cached=False)
    found = []
    for repo in base.repos.iter_enabled():
        entry: Answer = {
            "id": repo.id,
            "source": os.path.splitext(os.path.basename(repo.repofile))[0],
            "where": (list(repo.baseurl) or [repo.metalink or repo.mirrorlist or ""])[0],
        }
        found.append(entry)
        repo._repo.expire()  # no :api
        try:
            repo.load()
            entry["uri"] = f"{repo.remote_location('.')[:-1].rstrip('/')}/"
            path = os.path.dirname(repo.get_metadata_path("primary"))
            entry["repomd"] = os.path.join(path, "repomd.xml")
            for name in ("repomd.xml.asc", "repomd.xml.key"):
                signature = os.path.join(asked["root"], "signatures", f"{repo.id}.{name}")
                if _signature(repo, f"{entry['uri']}repodata/{name}", signature):
                    entry[name] = signature
            entry["keys"] = [_text(repo, url) for url in repo.gpgkey]
        except (dnf.exceptions.RepoError, OSError) as error:
            entry["error"] = str(error)
    return {"repositories": found}


def _signature(repo: Any, url: str, path: str) -> bool:
    """Fetch a file that not every repository has; return whether this one has it."""
    try:
        _download(repo, url, path)
    except OSError as error:
        if any(text in str(error) for text in ABSENT):
            return False
        raise
    return True


def _text(repo: Any, url: str) -> str:
    path = os.path.join(repo._repo.getCachedir(), "key")  # no :api
    try:
        _download(repo, url, path)
    except OSError as error:
        raise OSError(f"gpgkey {url}: {error}") from error
    with open(path, encoding="utf-8") as file:
        return file.read()


def _download(repo: Any, url: str, path: str) -> None:
    """Fetch one address with the settings of a repository: proxy, certificates, user."""
    for left in reversed(range(ATTEMPTS)):
        try:
            with open(path, "w+b") as file:  # librepo opens it for reading, too
                repo._repo.downloadUrl(url, file.fileno())  # no :api
        except RuntimeError as error:
            os.unlink(path)
            if not left or any(text in str(error) for text in ABSENT):
                raise OSError(str(error)) from error
        else:
            return


def _filled(asked: Answer) -> dnf.Base:
    base = _base(asked)
    base.fill_sack(load_system_repo=False)
    return base


def available(asked: Answer) -> Answer:
    """Return the versions of packages, newest first, and the module streams."""
    base = _filled(asked)
    # Also the packages of streams that are not enabled.
    every = base.sack.query(flags=hawkey.IGNORE_EXCLUDES).available()
    every = every.filter(name=asked["packages"], arch=base.sack.list_arches())
    packages = sorted(every, reverse=True)
    modules = dnf.module.module_base.ModuleBase(base).get_modules("*")[0]
    return {
        "packages": [
            {
                "name": one.name,
                "version": f"{one.version}-{one.release}",
                "architecture": one.arch,
                "repository": one.repoid,
            }
            for one in packages
        ],
        "streams": [[one.getNameStream(), one.getRepoID()] for one in modules],
    }


def resolve(asked: Answer) -> Answer:
    """Return the packages that dnf would install on an empty machine, or why it cannot."""
    base = _filled(asked)
    if asked["kernel"]:
        others = [
            one
            for one in base.sack.query().filter(name=list(KERNELS))
            if f"{one.version}-{one.release}.{one.arch}" != asked["kernel"]
        ]
        base.sack.add_excludes(base.sack.query().filter(pkg=others))
    unmatched = []
    for word in asked["words"]:
        try:
            base.install(word)
        except dnf.exceptions.MarkingError as error:
            unmatched.append(str(error))
    if unmatched:
        return {"problem": "; ".join(unmatched)}
    try:
        base.resolve()
    except dnf.exceptions.DepsolveError as error:
        return {"problem": str(error)}
    found = []
    for one in base.transaction.install_set:
        algorithm, digest = one.returnIdSum()  # no :api
        epoch = f"{one.epoch}:" if one.epoch else ""
        found.append(
            {
                "name": one.name,
                "version": f"{epoch}{one.version}-{one.release}",
                "architecture": one.arch,
                "repository": one.repoid,
                "path": one.location,
                "elsewhere": one.baseurl or "",
                "size": one.downloadsize,
                "digest": [algorithm, digest],
            }
        )
    return {"packages": found}


def fetch(asked: Answer) -> Answer:
    """Fetch files; return address -> reason for each one that was not fetched."""
    base = _base(asked)
    failed = {}
    for identity, url, path in asked["files"]:
        try:
            _download(base.repos[identity], url, path)
        except OSError as error:
            failed[url] = str(error)
    return {"failed": failed}


QUESTIONS = {one.__name__: one for one in (update, available, resolve, fetch)}


def main() -> None:
    """Answer one question."""
    asked = cast(Answer, json.load(sys.stdin))
    try:
        answer = QUESTIONS[asked["question"]](asked)
    except Unanswered as error:
        answer = {"unanswered": str(error)}
    except (dnf.exceptions.Error, OSError) as error:
        answer = {"error": str(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
