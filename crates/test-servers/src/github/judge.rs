//! A judge of exchanges with GitHub's API, who goes by the description that GitHub publishes: the part of
//! it that `tests/openapi/cut.py` has cut out.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{LazyLock, Mutex, PoisonError},
};

use serde_json::{Value, json};

use crate::judges::{repository, tool};

/// A process that answers each line with one.
struct Judge {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _process: Child,
}

/// What is wrong with a question, or with an exchange.
pub fn wrong(exchange: &Value) -> Vec<String> {
    let said = ask(exchange);
    serde_json::from_value(said["wrong"].clone()).unwrap()
}

/// An answer as GitHub's own description has it.
pub fn example(name: &str) -> Value {
    ask(&json!({ "example": name }))
}

fn ask(asked: &Value) -> Value {
    static JUDGE: LazyLock<Mutex<Judge>> = LazyLock::new(|| Mutex::new(Judge::call()));
    let mut judge = JUDGE.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(judge.input, "{asked}").unwrap();
    let mut said = String::new();
    judge.output.read_line(&mut said).unwrap();
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("the judge fell silent: {said}"))
}

impl Judge {
    fn call() -> Self {
        let place = repository().join("tests/openapi");
        let mut process = Command::new(tool("python"))
            .arg(place.join("judge.py"))
            .arg(place.join("api.github.com.json"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: process.stdin.take().unwrap(),
            output: BufReader::new(process.stdout.take().unwrap()),
            _process: process,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, net::TcpStream};

    use super::*;
    use crate::github::fake::{Fake, Reply};

    #[test]
    fn the_judge_knows_truth_from_lies() {
        let asked = "/repos/ROCm/TheRock/actions/runs/7";
        let judged = |path: &str, status: u16, body: &Value| {
            let headers = [("Content-Type", "application/json; charset=utf-8")];
            let body = body.to_string();
            wrong(&json!({"path": path, "status": status, "headers": headers, "body": body}))
        };
        let run = example("workflow-run");
        assert_eq!(judged(asked, 200, &run), [""; 0]);
        let (mut text, mut without) = (run.clone(), run);
        text["id"] = json!("7");
        without.as_object_mut().unwrap().remove("status");
        let mut lies = [
            judged(asked, 200, &text),
            judged(asked, 200, &without),
            judged(asked, 204, &json!({})),
            judged(asked, 404, &json!({"error": "no"})),
            judged("/runs/7", 200, &json!({})),
            wrong(&json!({"path": "/repos/ROCm/TheRock/actions/runs/latest"})),
            wrong(&json!({"path": "/repos/ROCm/TheRock/actions/runs?sha=abc"})),
        ]
        .concat();
        lies.dedup();
        insta::assert_snapshot!(lies.join("\n"), @r#"
    `id`: '7' is not of type 'integer'
    ``: 'status' is a required property
    Unknown response http status: 204
    not a refusal: {"error":"no"}
    Path not found for https://api.github.com/runs/7
    Path parameter error: run_id
    Failed to cast value to integer type: latest
    invalid literal for int() with base 10: 'latest'
    no such parameters: ['sha']
    "#);
    }

    #[test]
    #[should_panic(expected = "not what GitHub says to `/repos/ROCm/TheRock/actions/runs/7`")]
    fn a_fake_that_lies_fails_the_test() {
        let lie = Reply::json(&json!({"id": 7, "head_sha": "abc", "status": "queued"}));
        Fake::start().on("/repos/ROCm/TheRock/actions/runs/7", lie);
    }

    #[test]
    #[should_panic(expected = "GitHub was asked wrongly")]
    fn a_question_that_github_does_not_know_fails_the_test() {
        let fake = Fake::start();
        let address = fake.url();
        let mut stream = TcpStream::connect(address.strip_prefix("http://").unwrap()).unwrap();
        let asked = "/repos/ROCm/TheRock/actions/runs/7/artifacts?pages=2";
        write!(stream, "GET {asked} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
    }
}
