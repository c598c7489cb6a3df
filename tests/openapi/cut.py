"""Cuts what the tests need out of GitHub's description of its API, which has 13 MB.

npm pack @octokit/openapi@23.0.2 && tar -xf octokit-openapi-*.tgz
python3 tests/openapi/cut.py package/generated/api.github.com.json >tests/openapi/api.github.com.json
"""

import json
import sys
from typing import Any

REPOSITORY = "/repos/{owner}/{repo}"
# What rocwheel asks, always with GET.
PATHS = [
    REPOSITORY,
    f"{REPOSITORY}/actions/artifacts/{{artifact_id}}/{{archive_format}}",
    f"{REPOSITORY}/actions/runs",
    f"{REPOSITORY}/actions/runs/{{run_id}}",
    f"{REPOSITORY}/actions/runs/{{run_id}}/artifacts",
    f"{REPOSITORY}/actions/workflows/{{workflow_id}}/runs",
    f"{REPOSITORY}/commits/{{ref}}",
    f"{REPOSITORY}/pulls/{{pull_number}}",
]
EXAMPLES = [
    "artifact-paginated",
    "commit",
    "full-repository",
    "pull-request",
    "workflow-run",
]
# What refusals look like that are described in words alone.
SCHEMAS = ["basic-error"]
# What no judgement reads. A property may have one of these names: it is an object with keys of its own.
PROSE = {"description", "summary", "example", "examples", "externalDocs"}


def without_prose(value: Any) -> Any:
    if isinstance(value, list):
        return [without_prose(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: without_prose(item)
        for key, item in value.items()
        if not key.startswith("x-")
        and (key not in PROSE or (isinstance(item, dict) and "type" in item))
    }


def references(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(references, value))
    if not isinstance(value, dict):
        return set()
    own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
    return own.union(*map(references, value.values()))


def described(response: Any) -> Any:
    """A response has to have a description, perhaps an empty one."""
    return response if "$ref" in response else {"description": "", **response}


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        whole = json.load(file)
    paths = {path: {"get": without_prose(whole["paths"][path]["get"])} for path in PATHS}
    for item in paths.values():
        responses = item["get"]["responses"]
        item["get"]["responses"] = {key: described(it) for key, it in responses.items()}
    components: dict[str, dict[str, Any]] = {
        "examples": {name: whole["components"]["examples"][name] for name in EXAMPLES},
    }
    wanted = references(paths) | {f"#/components/schemas/{name}" for name in SCHEMAS}
    while wanted:
        _, _, kind, name = wanted.pop().split("/")
        kept = components.setdefault(kind, {})
        if name in kept:
            continue
        cut = without_prose(whole["components"][kind][name])
        kept[name] = described(cut) if kind == "responses" else cut
        wanted |= references(kept[name])
    rest = {key: whole[key] for key in ("openapi", "servers")}
    rest["info"] = {key: whole["info"][key] for key in ("title", "version")}
    # A line for each path and each component: a newer description is a diff that can be read.
    print("{")
    for key, value in rest.items():
        print(f"{json.dumps(key)}: {json.dumps(value)},")
    print('"paths": {')
    print(",\n".join(f"{json.dumps(path)}: {json.dumps(paths[path])}" for path in PATHS))
    print('},\n"components": {')
    kinds = []
    for kind, named in sorted(components.items()):
        lines = [f"{json.dumps(name)}: {json.dumps(named[name])}" for name in sorted(named)]
        kinds.append(f"{json.dumps(kind)}: {{\n" + ",\n".join(lines) + "\n}")
    print(",\n".join(kinds))
    print("}\n}")


if __name__ == "__main__":
    main()
