//! What each key of the attribute does, and what holds where it is left out.

use hermes_peer::Access;
use hermes_peer::Capability;
use hermes_peer::Context;
use hermes_peer::Failure;
use hermes_peer::Incoming;
use hermes_peer::Items;
use hermes_peer::SlotName;
use hermes_peer::capability;

/// Finds the passages
/// that answer a question.
///
/// Best first.
#[capability(
    "knowledge.retrieve",
    version = "1.2.3",
    idempotent,
    read_only,
    reentrant,
    cost = 2,
    access = "restricted",
    reads = ["intent", "language"],
    weight = 70,
    concurrency = 8,
    queue = 16,
)]
async fn retrieve(_context: Context, question: String) -> Result<Vec<String>, Failure> {
    Ok(vec![question])
}

#[capability("text.erase", description = "Erases the last text.", destructive, writes = ["last"], access = "admin")]
async fn erase() -> std::io::Result<()> {
    Ok(())
}

/// Adds numbers up as they come.
#[capability("math.add", queue = 0)]
async fn add(mut numbers: Incoming<u32>, start: u32) -> Result<Items<u32>, Failure> {
    let mut sums = vec![start];
    while let Some(number) = numbers.next().await {
        sums.push(number?);
    }
    Ok(Items::from_iter(sums))
}

/// The names of what the attribute writes are not taken from the author.
mod names {
    use hermes_peer::Failure;
    use hermes_peer::capability;

    /// Says nothing.
    #[capability("names.info")]
    pub(super) async fn info() -> Result<(), Failure> {
        Ok(())
    }

    /// Says it again.
    #[capability("names.input")]
    pub(super) async fn input(request: String) -> Result<String, Failure> {
        Ok(request)
    }
}

#[test]
fn every_key_reaches_the_description() {
    let info = retrieve().info();
    assert_eq!(info.name.as_str(), "knowledge.retrieve");
    assert_eq!(
        info.description,
        "Finds the passages that answer a question.\n\nBest first."
    );
    assert_eq!(info.version.to_string(), "1.2.3");
    assert!(info.facts.idempotent && info.facts.read_only && info.facts.reentrant);
    assert!(!info.facts.destructive && !info.streams);
    assert_eq!((info.cost, info.weight), (2, 70));
    assert_eq!(info.access, Access::Restricted);
    let reads: Vec<&str> = info.reads.iter().map(SlotName::as_str).collect();
    assert_eq!(reads, ["intent", "language"]);
    assert!(info.writes.is_empty());
    assert!(info.input_schema.contains("string"), "{}", info.input_schema);
    assert!(info.output_schema.contains("array"), "{}", info.output_schema);
    let limits = retrieve().limits();
    assert_eq!((limits.concurrency, limits.queue), (8, 16));
}

#[test]
fn what_is_left_out_keeps_its_default() {
    let info = erase().info();
    assert_eq!(info.description, "Erases the last text.");
    assert_eq!(info.version.to_string(), "1.0.0");
    assert_eq!((info.cost, info.weight), (0, 100));
    assert_eq!(info.access, Access::Admin);
    assert!(info.facts.destructive);
    assert!(!info.facts.idempotent && !info.facts.read_only && !info.facts.reentrant);
    assert_eq!(info.writes[0].as_str(), "last");
    assert!(info.reads.is_empty() && info.item_schema.is_none());
    assert!(info.input_schema.contains("null"), "{}", info.input_schema);
    let limits = erase().limits();
    assert_eq!((limits.concurrency, limits.queue), (64, 64));
    assert_eq!(names::info().info().access, Access::Public);
}

#[test]
fn streams_in_and_out_have_schemas_of_their_items() {
    let info = add().info();
    assert!(info.streams);
    assert!(info.output_schema.contains("integer"), "{}", info.output_schema);
    assert!(info.item_schema.is_some_and(|schema| schema.contains("integer")));
    assert_eq!(add().limits().queue, 0);
}

#[tokio::test]
async fn a_handler_is_still_a_function() {
    assert_eq!(
        names::input::run("again".to_owned()).await.ok().as_deref(),
        Some("again")
    );
    assert!(erase::run().await.is_ok());
}
