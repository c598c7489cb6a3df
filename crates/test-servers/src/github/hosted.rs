//! What a run uploaded to GitHub itself: a list of the API, and the server that keeps the bytes.

use serde_json::{Value, json};

use super::{
    fake::{Fake, Reply},
    judge,
};
use crate::sha256;

/// The first page of the list of the artifacts of run 7.
pub const LIST: &str = "/repos/ROCm/TheRock/actions/runs/7/artifacts?per_page=100&page=1";

/// GitHub's API, and who keeps the bytes for it: the address on that is good for one minute.
pub struct Hosted {
    pub api: Fake,
    pub keeper: Fake,
    pub repository: &'static str,
    listed: Vec<Value>,
}

/// An artifact as GitHub describes it, with what is read here as it is asked for.
pub fn artifact(id: u64, name: &str, bytes: &[u8]) -> Value {
    let mut artifact = judge::example("artifact-paginated")["artifacts"][0].clone();
    artifact["id"] = json!(id);
    artifact["name"] = json!(name);
    artifact["size_in_bytes"] = json!(bytes.len());
    artifact["expired"] = json!(false);
    artifact["digest"] = json!(format!("sha256:{}", sha256(bytes)));
    artifact
}

pub fn page(total: usize, artifacts: &[Value]) -> Reply {
    Reply::json(&json!({"total_count": total, "artifacts": artifacts}))
}

impl Hosted {
    pub fn start() -> Self {
        Self::of(Fake::start())
    }

    pub fn of(api: Fake) -> Self {
        Self { api, keeper: Fake::elsewhere(), repository: "ROCm/TheRock", listed: Vec::new() }
    }

    /// One artifact of ten bytes, for which these are the answers.
    pub fn of_ten_bytes(replies: Vec<Reply>) -> Self {
        let mut hosted = Self::start();
        hosted.list(artifact(5, "a", b"0123456789"));
        for reply in replies {
            hosted.keep(5, reply);
        }
        hosted.ready();
        hosted
    }

    /// An artifact that is kept as it should be.
    pub fn upload(&mut self, id: u64, name: &str, kind: &str, bytes: &[u8]) {
        let reply = Reply::bytes(kind, bytes).header("ETag", "\"1\"").in_parts();
        self.upload_as(id, name, bytes, reply);
    }

    pub fn upload_as(&mut self, id: u64, name: &str, bytes: &[u8], kept: Reply) {
        self.list(artifact(id, name, bytes));
        self.keep(id, kept);
    }

    pub fn list(&mut self, artifact: Value) {
        self.listed.push(artifact);
    }

    pub fn keep(&self, id: u64, reply: Reply) {
        let path = format!("/kept/{id}?sig=hush");
        let place = format!("{}{path}", self.keeper.url());
        let route = route(id).replace("ROCm/TheRock", self.repository);
        self.api.on(&route, Reply::redirect(302, &place));
        self.keeper.on(&path, reply);
    }

    /// From now on, what was uploaded is listed.
    pub fn ready(&self) {
        let list = LIST.replace("ROCm/TheRock", self.repository);
        self.api.on(&list, page(self.listed.len(), &self.listed));
    }
}

pub fn route(id: u64) -> String {
    format!("/repos/ROCm/TheRock/actions/artifacts/{id}/zip")
}
