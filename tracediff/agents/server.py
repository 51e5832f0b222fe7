"""The server: tools over stdin and stdout, by the official `mcp` package. What they answer is in desk.py."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

import tracediff
from tracediff.agents import answers as a
from tracediff.agents.desk import Desk
from tracediff.errors import TracediffError
from tracediff.report.templates import text

# Tool (a method of Desk) -> what it is asked and what it answers.
TOOLS: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]] = {
    "inputs": (a.InputsAsked, a.Entries),
    "compare": (a.CompareAsked, a.Compared),
    "show": (a.ShowAsked, a.Shown),
    "explain": (a.ExplainAsked, a.Explained),
    "table": (a.TableAsked, a.Listed),
    "query": (a.QueryAsked, a.Listed),
    "schema": (a.SchemaAsked, a.Listed),
    "what_if": (a.WhatIfAsked, a.Projected),
    "history": (a.HistoryAsked, a.HistoryFound),
}
SKILL = "SKILL.md"
_READS = types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def serve(desk: Desk) -> None:
    """Answer until stdin ends."""
    anyio.run(_serve, _server(desk))


def instructions() -> str:
    """SKILL.md without its head: what a client tells the model before the first question."""
    return text(SKILL).split("---\n", 2)[2].strip()


def _server(desk: Desk) -> Server[Any]:
    async def listed(context: Any, asked: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(name, *kinds) for name, kinds in TOOLS.items()])

    async def called(context: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        # A thread for each call, so that the server hears of others meanwhile.
        return await anyio.to_thread.run_sync(
            answer, desk, asked.name, asked.arguments or {}, abandon_on_cancel=True
        )

    return Server(
        "tracediff",
        version=tracediff.__version__,
        instructions=instructions(),
        on_list_tools=listed,
        on_call_tool=called,
    )


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def answer(desk: Desk, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
    """What a tool says, or its error: slug, message, fix."""
    try:
        found, failed = _call(desk, name, arguments), False
    except TracediffError as error:
        said = {"slug": error.slug, "message": error.message, "fix": error.fix or ""}
        found, failed = {key: desk.folders.plain(value) for key, value in said.items()}, True
    found = a.small(found)
    content = msgspec.json.encode(found).decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=content)], structured_content=found, is_error=failed
    )


def _call(desk: Desk, name: str, arguments: dict[str, Any]) -> Any:
    if name not in TOOLS:
        raise TracediffError("no-such-tool", f"there is no tool {name[:80]}", fix=", ".join(TOOLS))
    try:
        asked = msgspec.convert(arguments, TOOLS[name][0])
        return msgspec.to_builtins(getattr(desk, name)(asked))
    except msgspec.ValidationError as error:
        raise TracediffError(
            "bad-arguments", f"{name}: {error}", fix=f"it takes {', '.join(TOOLS[name][0].__struct_fields__)}"
        ) from None
    except TracediffError:
        raise
    except BaseException as error:  # of a library in Rust, too; the server lives on
        raise TracediffError(
            "internal-error",
            f"tracediff met a mistake of its own: {type(error).__name__} in the tool {name}",
            fix=f"`tracediff {name}` on the command line writes a report of it",
        ) from None


def _tool(name: str, asked: type[msgspec.Struct], answered: type[msgspec.Struct]) -> types.Tool:
    return types.Tool(
        name=name,
        description=" ".join((asked.__doc__ or "").split()),
        input_schema=_schema(asked),
        output_schema=_outline(_schema(answered)),
        annotations=_READS,
    )


def _outline(schema: dict[str, Any]) -> dict[str, Any]:
    """The fields of an answer without those of the objects in it: a client hands the list of tools to its model with each question."""

    def of(value: Any) -> Any:
        if isinstance(value, list):
            return [of(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {"type": "object"} if "$ref" in value else {key: of(one) for key, one in value.items()}

    return {
        "type": "object",
        "properties": {
            name: {key: value for key, value in of(one).items() if key != "default"}
            for name, one in schema["properties"].items()
        },
    }


def _schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a struct, an object at its root."""
    (_,), named = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    root: dict[str, Any] = named.pop(kind.__name__)
    return root | ({"$defs": named} if named else {})
