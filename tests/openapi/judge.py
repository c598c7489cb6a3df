"""Says where a question to GitHub's API, or an answer, is not as GitHub describes its API.

Reads a JSON object a line and answers each with one. `{"example": NAME}` asks for an example of the
description. Anything else is an exchange with a `path`, and perhaps with the `status`, `headers` and
`body` of the answer, and is itself answered by `{"wrong": [REASON, …]}`.
"""

import json
import re
import sys
from typing import Any

from openapi_core import Config, OpenAPI
from openapi_core.exceptions import OpenAPIError
from openapi_core.templating.responses.exceptions import ResponseNotFound
from openapi_core.testing import MockRequest, MockResponse

LONGEST = 200


def reasons(error: BaseException | None) -> list[str]:
    """What the deepest causes say: those above repeat the whole answer."""
    texts, parts = [], []
    while error:
        texts.append(str(error)[:LONGEST])
        for part in getattr(error, "schema_errors", ()):
            path = "/".join(str(step) for step in part.absolute_path)
            parts.append(f"`{path}`: {part.message}"[:LONGEST])
        error = error.__cause__
    return parts or texts


class Judge:
    def __init__(self, description: dict[str, Any]) -> None:
        self.description = description
        # The description is too long to be judged itself each time.
        config = Config(spec_validator_cls=None)
        self.api = OpenAPI.from_dict(description, config=config)
        self.known = [
            (
                re.compile(re.sub(r"\\{.*?\\}", "[^/]+", re.escape(template))),
                self.parameters_of(item),
            )
            for template, item in description["paths"].items()
            if "get" in item
        ]

    def example(self, name: str) -> Any:
        return self.description["components"]["examples"][name]["value"]

    def wrong(self, exchange: dict[str, Any]) -> list[str]:
        path, _, query = exchange["path"].partition("?")
        args = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        request = MockRequest("https://api.github.com", "get", path, args=args)
        try:
            self.api.validate_request(request)
            unknown = args.keys() - self.parameters(path)
            if unknown:
                raise ValueError(f"no such parameters: {sorted(unknown)}")
            if "status" in exchange:
                self.judge_answer(request, exchange)
        except OpenAPIError as error:
            return reasons(error)
        except ValueError as error:
            return [str(error)]
        return []

    def parameters(self, path: str) -> set[str]:
        """The names of all that may be asked; `validate_request` lets any name pass."""
        fitting = (names for pattern, names in self.known if pattern.fullmatch(path))
        return set().union(*fitting)

    def parameters_of(self, item: dict[str, Any]) -> set[str]:
        names = set()
        for parameter in item["get"].get("parameters", []):
            if "$ref" in parameter:
                name = parameter["$ref"].rsplit("/", 1)[1]
                parameter = self.description["components"]["parameters"][name]
            names.add(parameter["name"])
        return names

    def judge_answer(self, request: MockRequest, exchange: dict[str, Any]) -> None:
        headers = {name.lower(): value for name, value in exchange["headers"]}
        kind = headers.pop("content-type", "application/json").split(";")[0]
        body, status = exchange["body"], exchange["status"]
        response = MockResponse(body.encode(), status, headers, kind)
        try:
            self.api.validate_response(request, response)
        except ResponseNotFound:
            # Refusals that any question may meet are described in words alone.
            if status < 400:
                raise
            schemas = self.description["components"]["schemas"]
            known = schemas["basic-error"]["properties"]
            refusal = json.loads(body)
            if (
                not isinstance(refusal.get("message"), str)
                or refusal.keys() - known.keys()
            ):
                raise ValueError(f"not a refusal: {body[:LONGEST]}") from None


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        judge = Judge(json.load(file))
    for line in sys.stdin:
        asked = json.loads(line)
        if name := asked.get("example"):
            said = judge.example(name)
        else:
            said = {"wrong": judge.wrong(asked)}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
