//! A session with slots: what one agent finds out travels to the next with the call, without another round trip.
//!
//! You should see the greeting in the language that the first agent noted, and which slots travelled with which message:
//!
//! ```text
//! Bonjour, Ada!
//! request  person.look_up
//! response person.look_up    writes language
//! request  person.greet      reads language
//! response person.greet
//! ```

use hermes_peer::Context;
use hermes_peer::Failure;
use hermes_peer::Node;
use hermes_peer::SlotName;
use hermes_peer::What;
use hermes_peer::capability;

/// Looks up what is known of a person, and notes the language for whoever comes later.
#[capability("person.look_up", idempotent, writes = ["language"])]
async fn look_up(name: String, context: Context) -> Result<bool, Failure> {
    context.set_slot("language", &if name == "Ada" { "fr" } else { "en" })?;
    Ok(true)
}

/// Greets a person in the language that the session knows.
#[capability("person.greet", read_only, reads = ["language"])]
async fn greet(name: String, context: Context) -> Result<String, Failure> {
    let language: Option<String> = context.slot("language")?;
    Ok(match language.as_deref() {
        Some("fr") => format!("Bonjour, {name}!"),
        _ => format!("Hello, {name}!"),
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = |agent: &str| Node::builder(agent).listen("127.0.0.1:0");
    let _clerk = node("agent://default/demo/clerk").capability(look_up).start().await?;
    let _host = node("agent://default/demo/host").capability(greet).start().await?;
    let caller = Node::builder("agent://default/demo/caller").start().await?;

    // The caller opens the session and holds its slots; both agents take part in it.
    let session = caller.open_session()?;
    let _is_known: bool = caller.call("person.look_up", "Ada").session(&session).await?;
    let greeting: String = caller.call("person.greet", "Ada").session(&session).await?;
    println!("{greeting}");
    assert_eq!(session.get::<String>("language")?.as_deref(), Some("fr"));

    for seen in caller.timeline(session.id()) {
        let What::Message(message) = &seen.what else { continue };
        let capability = message.capability.as_ref().map(ToString::to_string).unwrap_or_default();
        let slots = list("reads", &message.slots_read) + &list("writes", &message.slots_written);
        println!("{}", format!("{:<8} {capability:<16}  {slots}", message.message.to_string()).trim_end());
    }
    Ok(())
}

fn list(verb: &str, slots: &[SlotName]) -> String {
    let names: Vec<&str> = slots.iter().map(SlotName::as_str).collect();
    if names.is_empty() { String::new() } else { format!("{verb} {}", names.join(", ")) }
}
