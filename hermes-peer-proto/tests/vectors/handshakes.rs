//! The worked handshakes, whole.

use serde_json::Value;
use serde_json::json;

use hermes_peer_proto::protocol::handshake::Worked;
use hermes_peer_proto::protocol::handshake::worked_handshake;
use hermes_peer_proto::protocol::handshake::worked_resume;

pub(crate) fn handshakes() -> Value {
    let vector = |name: &str, shows: &str, worked: Worked| {
        let frames: Vec<_> = worked
            .frames
            .iter()
            .map(|frame| json!({ "type": frame.name, "from": frame.from, "hex": frame.hex }))
            .collect();
        json!({
            "name": name,
            "shows": shows,
            "input": {
                "token": worked.token,
                "exporter": worked.exporter,
                "former_secret": worked.former_secret,
            },
            "token_id": worked.token_id,
            "frames": frames,
            "acceptor_hash": worked.acceptor_hash,
            "final_hash": worked.final_hash,
            "version": worked.version,
            "link_secret": worked.link_secret,
        })
    };
    json!([
        vector("handshake", "a new link, both sides with the same token", worked_handshake()),
        vector("resume", "the link goes on over a new connection", worked_resume()),
    ])
}
