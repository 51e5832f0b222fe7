"""What reads results back.

Made while the module is imported, which one thread does at a time: msgspec lets a thread decode with what another one has
only half made of a type, and the process crashes.
"""

from __future__ import annotations

import msgspec

from tracediff.model.result import Result

RESULT = msgspec.json.Decoder(Result)
