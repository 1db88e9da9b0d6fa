//! Answers that no program gives, from a node within the test: bytes, questions, items on several lines.

use hermes_peer::Body;
use hermes_peer::Capability;
use hermes_peer::CapabilityInfo;
use hermes_peer::Context;
use hermes_peer::HandlerFuture;
use hermes_peer::Node;
use hermes_peer::Reply;
use hermes_peer::Request;
use serde_json::Value;
use serde_json::json;

use crate::support::Ended;
use crate::support::Folder;

/// Bytes that are neither text nor JSON.
const BYTES: &[u8] = &[0x89, 0x50, 0x00, 0xff];

struct Given {
    name: &'static str,
    reply: fn() -> Reply,
}

impl Capability for Given {
    fn info(&self) -> CapabilityInfo {
        CapabilityInfo::new(self.name.parse().unwrap())
    }

    fn handle(&self, _: Request, _: Context) -> HandlerFuture {
        let reply = self.reply;
        Box::pin(async move { Ok(reply()) })
    }
}

/// A node that the folder's configuration names.
async fn node(folder: &Folder) -> Node {
    let node = Node::builder("agent://default/test/giver")
        .listen("127.0.0.1:0")
        .development_ca(folder.path(".home/ca"))
        .without_local_discovery()
        .capability(Given { name: "give.bytes", reply: || Reply::body(Body::raw(BYTES)) })
        .capability(Given { name: "give.lines", reply: || Reply::body(Body::json("{\n  \"a\": 1\n}")) })
        .capability(Given {
            name: "give.question",
            reply: || Reply::needs_input("Which one?", &json!({ "type": "string" }), "opaque"),
        })
        .start()
        .await
        .unwrap();
    let (id, address) = (node.id(), node.address().unwrap());
    folder.write("peers.yaml", &format!("peers: [{{ node_id: {id}, endpoint: \"{address}\" }}]\n"));
    node
}

/// Runs on a thread of its own, so that the node can answer.
async fn run(folder: &Folder, args: &[&str]) -> Ended {
    let mut command = folder.command(args);
    Ended::of(tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_written_as_they_are() {
    let folder = Folder::new();
    let _node = node(&folder).await;
    let mut command = folder.command(&["call", "give.bytes"]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), BYTES));
    let ended = run(&folder, &["call", "give.bytes", "--json"]).await;
    let whole: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(whole["result_hex"], "895000ff");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_printed_and_is_no_result() {
    let folder = Folder::new();
    let _node = node(&folder).await;
    let ended = run(&folder, &["call", "give.question"]).await;
    assert_eq!(ended.code, Some(4));
    let question: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&question["question"], &question["state"]), (&json!("Which one?"), &json!("opaque")));
    assert!(ended.err.contains("needs more input"), "{}", ended.err);
    let ended = run(&folder, &["call", "give.question", "--json"]).await;
    let whole: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(whole["needs_input"]["schema"], json!({ "type": "string" }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_is_a_line_where_one_is_asked_for() {
    let folder = Folder::new();
    let _node = node(&folder).await;
    assert_eq!(run(&folder, &["call", "give.lines"]).await.out, "{\n  \"a\": 1\n}\n");
    for args in [&["call", "give.lines", "--stream"][..], &["call", "give.lines", "--json"]] {
        let ended = run(&folder, args).await;
        assert_eq!(ended.out.lines().count(), 1, "{}", ended.out);
        assert!(ended.out.contains("\"a\": 1"), "{}", ended.out);
    }
}
