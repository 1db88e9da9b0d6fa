//! What each key of the attribute does, and what holds where it is left out.

use hermes_peer::Access;
use hermes_peer::Capability;
use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Incoming;
use hermes_peer::Items;
use hermes_peer::Node;
use hermes_peer::SlotName;
use hermes_peer::capability;
use hermes_peer_tests::Lab;

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
async fn retrieve(context: Context, question: String) -> Result<Vec<String>, Failure> {
    Ok(vec![context.caller().agent.name().to_owned(), question])
}

#[capability("text.erase", description = "Erases the last text.", destructive, writes = ["last"], access = "admin")]
async fn erase() -> std::io::Result<()> {
    Ok(())
}

/// Adds numbers up as they come.
#[capability("math.add", queue = 0)]
async fn add(mut numbers: Incoming<u32>, start: u32) -> Result<Items<u32>, Failure> {
    // A variable may have the name of the handler.
    let mut add = vec![start];
    while let Some(number) = numbers.next().await {
        add.push(add[add.len() - 1] + number?);
    }
    Ok(Items::from_iter(add))
}

/// Why there is no quotient. It is no `std::error::Error`: what it says is for the caller.
#[derive(Debug)]
struct DividedByZero(i64);

impl From<DividedByZero> for Failure {
    fn from(DividedByZero(dividend): DividedByZero) -> Self {
        Self::with_code(ErrorCode::InvalidInput, format!("{dividend} cannot be divided by 0"))
    }
}

/// Divides the first number by the second.
#[capability("math.divide", idempotent)]
async fn divide((divide, by): (i64, i64)) -> Result<i64, DividedByZero> {
    divide.checked_div(by).ok_or(DividedByZero(divide))
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
    pub(super) async fn input(input: String) -> Result<String, Failure> {
        Ok(input)
    }
}

#[test]
fn every_key_reaches_the_description() {
    let info = retrieve().info();
    assert_eq!(info.name.as_str(), "knowledge.retrieve");
    assert_eq!(info.description, "Finds the passages that answer a question.\n\nBest first.");
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
    assert_eq!(names::input::run("again".to_owned()).await.ok().as_deref(), Some("again"));
    assert!(erase::run().await.is_ok());
}

/// A provider of everything above, and a node that is linked to it.
async fn linked(lab: &Lab) -> (Node, Node) {
    let provider = lab.provider("provider").capability(retrieve).capability(erase).capability(add);
    let provider = provider.capability(names::info).capability(names::input()).start().await.unwrap();
    provider.register(divide).unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    (provider, caller)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_gets_its_input_and_its_context_in_the_order_of_its_parameters() {
    let lab = Lab::new();
    let (_provider, caller) = linked(&lab).await;
    let found: Vec<String> = caller.call("knowledge.retrieve", "who?").await.unwrap();
    assert_eq!(found, ["caller", "who?"]);
    let answer: String = caller.call("names.input", "who?").await.unwrap();
    assert_eq!(answer, "who?");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_without_an_input_takes_nothing() {
    let lab = Lab::new();
    let (_provider, caller) = linked(&lab).await;
    caller.call::<()>("text.erase", &()).await.unwrap();
    caller.call::<()>("names.info", &()).await.unwrap();
    let refused = caller.call::<()>("text.erase", "all of it").await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidInput);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_come_in_beside_the_input_and_go_out_one_by_one() {
    let lab = Lab::new();
    let (_provider, caller) = linked(&lab).await;
    let (sender, mut replies) = caller.call("math.add", &100).exchange::<u32, u32>().await.unwrap();
    for number in [1, 2, 3] {
        sender.send(&number).await.unwrap();
    }
    sender.finish();
    let mut sums = Vec::new();
    while let Some(sum) = replies.next().await {
        sums.push(sum.unwrap());
    }
    assert_eq!(sums, [100, 101, 103, 106]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_authors_own_type_becomes_the_failure_that_it_converts_into() {
    let lab = Lab::new();
    let (_provider, caller) = linked(&lab).await;
    assert_eq!(caller.call::<i64>("math.divide", &(7, 2)).await.unwrap(), 3);
    let refused = caller.call::<i64>("math.divide", &(7, 0)).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidInput);
    assert_eq!(refused.message(), "7 cannot be divided by 0");
}
