//! Every mistake is shown in one run, and nothing that merely follows from one: the handlers' names can be used.

use hermes_peer::{Capability, Failure, capability};

#[capability("echo", cosst = 2, cost = 11, read_only, destructive)]
fn echo(text: &'static str, times: usize) -> String {
    text.repeat(times)
}

#[capability("text.upper", weight)]
async fn upper<T: ToString>(text: T) -> Result<String, Failure> {
    Ok(text.to_string().to_uppercase())
}

fn register(_: impl Capability) {}

fn main() {
    register(echo);
    register(upper);
    println!("{}", echo::run("a", 2));
    let _upper = upper::run("a".to_owned());
}
