"""ncu: profiles of Nsight Compute."""

from pathlib import Path

from tracediff.formats.recognise import Kind, counted, saved_result

_USE = "tracediff ncu BASELINE CANDIDATE"


def _facts(path: Path) -> tuple[list[str], str]:
    from tracediff.companions.ncu.read import read

    profile = read(path)
    names = {launch.name for launch in profile.launches}
    launches = f"{len(profile.launches)} launch{'' if len(profile.launches) == 1 else 'es'}"
    facts = [f"{launches} of {counted(len(names), 'kernel')}"]
    return facts + ([f"on {profile.device}"] if profile.device else []), ""


KINDS = (
    # without facts: read by NVIDIA's own module, where that is installed
    Kind("ncu-report", "a report of Nsight Compute", _USE, lambda path, head: head.startswith(b"NVR\0")),
    saved_result("ncu"),
    Kind("ncu-csv", "what ncu --csv printed", _USE,
         lambda path, head: b"==PROF==" in head or (b'"ID"' in head and b'"Kernel Name"' in head), facts=_facts),
)  # fmt: skip
