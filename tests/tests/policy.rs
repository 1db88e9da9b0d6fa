//! Who may do what, as the node at the other end proved who it is. Nodes prove themselves by a shared token here: with a
//! development CA they would be processes of one user, who may do everything.

#![expect(clippy::unwrap_used, reason = "a test whose scene cannot be set fails")]

use std::time::Duration;

use hermes_peer::Access;
use hermes_peer::CallError;
use hermes_peer::Capability;
use hermes_peer::Context;
use hermes_peer::Delivery;
use hermes_peer::Effect;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Node;
use hermes_peer::NodeBuilder;
use hermes_peer::Rule;
use hermes_peer::Verb;
use hermes_peer::capability;
use hermes_peer_tests::Lab;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::eventually;
use serde_json::Value;
use serde_json::json;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// Gives back what it gets.
#[capability("demo.echo")]
async fn echo(input: Value) -> Result<Value, Failure> {
    Ok(input)
}

/// Only for whom a rule names.
#[capability("demo.restricted", access = "restricted")]
async fn restricted() -> Result<(), Failure> {
    Ok(())
}

/// Only for whom a rule names as admin.
#[capability("demo.admin", access = "admin")]
async fn admin() -> Result<(), Failure> {
    Ok(())
}

/// Says who calls.
#[capability("demo.who")]
async fn who(context: Context) -> Result<Value, Failure> {
    let caller = context.caller();
    Ok(json!([caller.agent.as_str(), caller.node.as_str(), caller.is_same_user]))
}

/// A node of this agent that proves itself by the token all share.
fn builder(agent: &str, node_id: &str) -> NodeBuilder {
    Node::builder(agent).node_id(node_id).token("a token of the lab's own").without_local_discovery()
}

fn provider(agent: &str) -> NodeBuilder {
    let builder = builder(agent, "provider").listen("127.0.0.1:0");
    builder.capability(echo).capability(restricted).capability(admin).capability(who)
}

/// A node that is linked to the provider and knows what it may call there.
async fn linked(agent: &str, node_id: &str, provider: &Node) -> Node {
    let node = builder(agent, node_id).peer("provider", &endpoint(provider)).start().await.unwrap();
    node.look_around(PATIENCE).await;
    node
}

fn rule(effect: Effect, verb: Verb, names: &[&str], from: &str) -> Rule {
    let names = names.iter().map(|name| name.parse().unwrap()).collect();
    Rule { effect, verb, names, from: vec![from.parse().unwrap()] }
}

fn allow(verb: Verb, name: &str, from: &str) -> Rule {
    rule(Effect::Allow, verb, &[name], from)
}

fn deny(verb: Verb, name: &str, from: &str) -> Rule {
    rule(Effect::Deny, verb, &[name], from)
}

/// What the node was told that it may call.
fn advertised(node: &Node) -> Vec<String> {
    node.capabilities().iter().map(|(_, info)| info.name.to_string()).collect()
}

fn code<T: std::fmt::Debug>(result: Result<T, CallError>) -> ErrorCode {
    result.unwrap_err().code()
}

/// Asks for what is refused without ever being advertised: a capability that every node has.
async fn ask(node: &Node, capability: &str) -> Result<Value, CallError> {
    node.call(capability, &()).to("provider").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_rules_the_same_tenant_calls_what_is_public_and_another_one_nothing() {
    let provider = provider("agent://acme/lab/provider").start().await.unwrap();
    let neighbour = linked("agent://acme/other/neighbour", "neighbour", &provider).await;
    assert_eq!(advertised(&neighbour), ["demo.echo", "demo.who"], "what is kept from it is not even named");
    assert_eq!(neighbour.call::<Value>("demo.echo", &1).await.unwrap(), json!(1));
    for kept in ["demo.restricted", "demo.admin"] {
        assert_eq!(code(neighbour.call::<Value>(kept, &()).await), ErrorCode::NotFound);
    }
    assert_eq!(ask(&neighbour, "hermes.node").await.unwrap()["node_id"], "provider");
    let error = ask(&neighbour, "hermes.journal").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PermissionDenied);
    assert!(error.message().contains("needs a policy rule"), "which rule refused: {error}");
    assert!(error.message().contains("agent://acme/other/neighbour"), "whom: {error}");

    let stranger = linked("agent://acme2/lab/provider", "stranger", &provider).await;
    assert!(advertised(&stranger).is_empty());
    assert_eq!(code(stranger.call::<Value>("demo.echo", &1).await), ErrorCode::NotFound);
    for built_in in ["hermes.node", "hermes.peers", "hermes.journal"] {
        let error = ask(&stranger, built_in).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
        assert!(error.message().contains("another tenant"), "{error}");
    }
    let seen: Vec<_> = provider.capabilities();
    assert!(seen.is_empty(), "the callers provide nothing: {seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_of_one_user_may_do_everything_with_each_other() {
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(restricted).capability(admin).capability(who);
    let provider = provider.start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    caller.call::<Value>("demo.restricted", &()).await.unwrap();
    caller.call::<Value>("demo.admin", &()).await.unwrap();
    let who: Value = caller.call("demo.who", &()).await.unwrap();
    assert_eq!(who, json!(["agent://default/lab/caller", "caller", true]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_rules_only_what_one_allows_is_allowed_and_a_denial_wins() {
    let rules = vec![
        allow(Verb::Call, "demo.*", "agent://partner/*/*"),
        deny(Verb::Call, "demo.echo", "agent://partner/guests/*"),
        allow(Verb::Admin, "demo.admin", "agent://acme/ops/root"),
        allow(Verb::Call, "hermes.journal", "agent://acme/ops/*"),
    ];
    let provider = provider("agent://acme/lab/provider").policy(rules).start().await.unwrap();

    let partner = linked("agent://partner/lab/a", "partner", &provider).await;
    assert_eq!(
        advertised(&partner),
        ["demo.echo", "demo.restricted", "demo.who"],
        "the right to call is not to admin"
    );
    partner.call::<Value>("demo.restricted", &()).await.unwrap();
    let error = ask(&partner, "hermes.node").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PermissionDenied);
    assert!(error.message().contains("no rule allows it"), "{error}");

    let guest = linked("agent://partner/guests/b", "guest", &provider).await;
    assert_eq!(advertised(&guest), ["demo.restricted", "demo.who"]);
    assert_eq!(code(guest.call::<Value>("demo.echo", &1).await), ErrorCode::NotFound);

    let root = linked("agent://acme/ops/root", "root", &provider).await;
    assert_eq!(advertised(&root), ["demo.admin"]);
    root.call::<Value>("demo.admin", &()).await.unwrap();
    assert!(ask(&root, "hermes.journal").await.unwrap().is_array());

    let neighbour = linked("agent://acme/lab/neighbour", "neighbour", &provider).await;
    assert!(advertised(&neighbour).is_empty(), "rules take the place of what holds without them");
    assert_eq!(code(neighbour.call::<Value>("demo.echo", &1).await), ErrorCode::NotFound);
    assert_eq!(code(ask(&neighbour, "hermes.node").await), ErrorCode::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_policy_allows_nothing() {
    let provider = provider("agent://acme/lab/provider").policy(vec![]).start().await.unwrap();
    let neighbour = linked("agent://acme/lab/neighbour", "neighbour", &provider).await;
    assert!(advertised(&neighbour).is_empty());
    assert_eq!(code(ask(&neighbour, "hermes.node").await), ErrorCode::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_registered_later_is_told_only_to_those_who_may_call_it() {
    let rules = vec![
        allow(Verb::Call, "late.*", "agent://partner/lab/*"),
        allow(Verb::Call, "demo.echo", "agent://*/*/*"),
        allow(Verb::Call, "mark.*", "agent://*/*/*"),
    ];
    let provider = provider("agent://acme/lab/provider").policy(rules).start().await.unwrap();
    let partner = linked("agent://partner/lab/a", "partner", &provider).await;
    let other = linked("agent://partner/else/b", "other", &provider).await;
    let late = |name: &str| {
        hermes_peer::handler(name, |(): (), _: Context| async { Ok::<_, Failure>(()) })
            .unwrap()
            .with_info(|info| info.access = Access::Restricted)
    };
    assert_eq!(late("late.one").info().access, Access::Restricted);
    provider.register(late("late.one")).unwrap();
    provider.register(late("mark.one")).unwrap();
    eventually("both hear of what they may call", || {
        [&partner, &other].iter().all(|node| advertised(node).contains(&"mark.one".to_owned()))
    })
    .await;
    assert_eq!(advertised(&partner), ["demo.echo", "late.one", "mark.one"]);
    assert_eq!(advertised(&other), ["demo.echo", "mark.one"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_sees_the_caller_that_its_node_has_proven() {
    let provider = provider("agent://acme/lab/provider").start().await.unwrap();
    let caller = linked("agent://acme/lab/caller", "caller", &provider).await;
    let who: Value = caller.call("demo.who", &()).await.unwrap();
    assert_eq!(who, json!(["agent://acme/lab/caller", "caller", false]));
    let own: Value = provider.call("demo.who", &()).await.unwrap();
    assert_eq!(own, json!(["agent://acme/lab/provider", "provider", false]));
}

/// Waits until the publisher knows so many nodes that want the topic.
async fn reaches(publisher: &Node, topic: &str, nodes: usize) {
    let reaching = async {
        while publisher.publish(topic, &0).await.unwrap() < nodes {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, reaching).await.expect("the subscription is known");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_subscribe_gets_no_event_and_who_may_not_publish_reaches_nobody() {
    let rules = vec![
        allow(Verb::Subscribe, "ticket.**", "agent://acme/lab/*"),
        deny(Verb::Subscribe, "ticket.secret", "agent://acme/lab/*"),
        allow(Verb::Publish, "news.*", "agent://acme/lab/*"),
    ];
    let hub = builder("agent://acme/lab/hub", "provider")
        .listen("127.0.0.1:0")
        .policy(rules)
        .start()
        .await
        .unwrap();
    let peer = linked("agent://acme/lab/peer", "peer", &hub).await;
    // To the hub's events: one pattern that is allowed, one that reaches into what is denied, one that nothing allows.
    let mut open = peer.subscribe::<u32>("ticket.open").unwrap();
    let mut wide = peer.subscribe::<u32>("ticket.*").unwrap();
    let mut other = peer.subscribe::<u32>("other.*").unwrap();
    reaches(&hub, "ticket.open", 1).await;
    assert_eq!(hub.publish("ticket.secret", &1).await.unwrap(), 0, "it goes nowhere");
    assert_eq!(hub.publish("other.1", &1).await.unwrap(), 0);
    assert_eq!(hub.publish("ticket.open", &2).await.unwrap(), 1);
    let mut last = 0;
    while last != 2 {
        let Some(Ok(Delivery::Event(event))) = timeout(PATIENCE, open.next()).await.unwrap() else {
            panic!("a gap")
        };
        last = event.value;
    }
    // The events of a node are sorted out here by pattern again: those of `ticket.open` reach the wider pattern too.
    while let Ok(Some(Ok(Delivery::Event(event)))) = timeout(Duration::ZERO, wide.next()).await {
        assert_eq!(event.topic.as_str(), "ticket.open");
    }
    assert!(timeout(Duration::ZERO, other.next()).await.is_err());
    // From the peer to the hub.
    let mut news = hub.subscribe::<u32>("**").unwrap();
    reaches(&peer, "news.1", 1).await;
    peer.publish("ticket.open", &1).await.unwrap();
    peer.publish("news.2", &2).await.unwrap();
    loop {
        let Some(Ok(Delivery::Event(event))) = timeout(PATIENCE, news.next()).await.unwrap() else {
            panic!("a gap")
        };
        assert!(event.topic.as_str().starts_with("news."), "{} was let in", event.topic);
        if event.value == 2 {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_rules_another_tenant_neither_publishes_nor_subscribes() {
    let hub = builder("agent://acme/lab/hub", "provider").listen("127.0.0.1:0").start().await.unwrap();
    let friend = linked("agent://acme/lab/friend", "friend", &hub).await;
    // The stranger lets the hub have its events; whether the hub takes them is the hub's affair.
    let open = vec![allow(Verb::Subscribe, "**", "agent://acme/*/*")];
    let stranger =
        builder("agent://other/lab/stranger", "stranger").peer("provider", &endpoint(&hub)).policy(open);
    let stranger = stranger.start().await.unwrap();
    let mut theirs = stranger.subscribe::<u32>("news.*").unwrap();
    let mut ours = friend.subscribe::<u32>("news.*").unwrap();
    let mut own = hub.subscribe::<u32>("**").unwrap();
    // Each hears itself, and the hub listens.
    reaches(&stranger, "news.stranger", 2).await;
    reaches(&friend, "news.friend", 2).await;
    reaches(&hub, "news.first", 2).await;
    // What the stranger sends is passed over; what comes after it on the hub is not.
    let first = async {
        loop {
            let Some(Ok(Delivery::Event(event))) = own.next().await else { panic!("a gap") };
            match event.topic.as_str() {
                "news.friend" => return,
                other => assert_eq!(other, "news.first"),
            }
        }
    };
    timeout(PATIENCE, first).await.unwrap();
    hub.publish("news.hub", &7).await.unwrap();
    loop {
        let Some(Ok(Delivery::Event(event))) = timeout(PATIENCE, ours.next()).await.unwrap() else {
            panic!("a gap")
        };
        if event.value == 7 {
            break;
        }
    }
    while let Ok(Some(Ok(Delivery::Event(event)))) = timeout(Duration::ZERO, theirs.next()).await {
        assert_eq!(event.topic.as_str(), "news.stranger", "only its own");
    }
    while let Ok(Some(Ok(Delivery::Event(event)))) = timeout(Duration::ZERO, own.next()).await {
        assert_ne!(event.topic.as_str(), "news.stranger");
    }
}

/// Says what it may read, and writes the slot that it is told to.
#[capability("slots.use", reads = ["intent", "secret"], writes = ["answer", "verdict"])]
async fn use_slots(slot: String, context: Context) -> Result<Vec<Option<String>>, Failure> {
    let read = vec![context.slot("intent")?, context.slot("secret")?];
    context.set_slot(&slot, &"written")?;
    Ok(read)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sessions_slots_are_read_and_written_as_its_owners_rules_say() {
    let agent = "agent://acme/lab/provider";
    let provider = provider(agent).capability(use_slots).start().await.unwrap();
    let rules = vec![allow(Verb::ReadSlot, "intent", agent), allow(Verb::WriteSlot, "answer", agent)];
    let owner = builder("agent://acme/lab/owner", "owner").peer("provider", &endpoint(&provider));
    let owner = owner.policy(rules).start().await.unwrap();
    let session = owner.open_session().unwrap();
    session.set("intent", &"refund").unwrap();
    session.set("secret", &"kept").unwrap();
    let read: Vec<Option<String>> = owner.call("slots.use", "answer").session(&session).await.unwrap();
    assert_eq!(read, [Some("refund".to_owned()), None], "what no rule allows does not travel");
    assert_eq!(session.get::<String>("answer").unwrap().as_deref(), Some("written"));
    let error = owner.call::<Value>("slots.use", "verdict").session(&session).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PermissionDenied);
    assert!(error.message().contains("`verdict`") && error.may_have_run(), "{error}");
    assert_eq!(session.get::<String>("verdict").unwrap(), None);
}
