"""trtexec: engines measured by TensorRT's trtexec."""

from pathlib import Path

from tracediff.formats.recognise import Kind, head_of, saved_result

_CHECKED = 64 << 20  # bytes of a file that is read whole to say what is in it


def _fits(path: Path, head: bytes) -> bool:
    from tracediff.companions.trtexec.read import recognise

    return bool(head) and recognise(head) is not None


def _facts(path: Path) -> tuple[list[str], str]:
    from tracediff.companions.trtexec.read import read, recognise

    if path.stat().st_size <= _CHECKED:
        read(str(path))
    return [f"file: {recognise(head_of(path))}"], ""


KINDS = (
    saved_result("trtexec"),
    Kind("trtexec", "what trtexec printed or exported", "tracediff trtexec BASELINE CANDIDATE", _fits, facts=_facts,
         refusal="trtexec-as-side",
         instead="tracediff trtexec BASELINE CANDIDATE, or tracediff compare A B --trtexec-baseline X --trtexec-candidate Y"),
)  # fmt: skip
