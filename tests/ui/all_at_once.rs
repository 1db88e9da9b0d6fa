//! Every mistake is shown in one run, and nothing that merely follows from one: the handlers' names can be used.

use hermes_peer::{Failure, Node, capability};

#[capability("echo", cosst = 2, cost = 11, read_only, destructive)]
fn echo(text: &'static str, times: usize) -> String {
    text.repeat(times)
}

#[capability("text.upper", weight)]
async fn upper<T: ToString>(text: T) -> Result<String, Failure> {
    Ok(text.to_string().to_uppercase())
}

fn main() {
    let _node = Node::builder("agent://default/text/upper").capability(echo).capability(upper);
    println!("{}", echo::run("a", 2));
    let _upper = upper::run("a".to_owned());
}
