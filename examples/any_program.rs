//! Any program as a capability: JSON on its standard input; JSON, or JSON lines for a stream, on its standard output.
//!
//! You should see what `cat` gave back, the lines of a shell script as they come, and a program that is ended with all that
//! it started when its time is over:
//!
//! ```text
//! cat:    {"hello":"mesh"}
//! script: 1
//! script: 2
//! script: 3
//! sleep:  DEADLINE_EXCEEDED: the program was ended after 300 ms (at …)
//! ```

use std::time::Duration;

use hermes_peer::CapabilityInfo;
use hermes_peer::Node;
use hermes_peer::Program;
use hermes_peer::ProgramCapability;
use serde_json::Value;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cat = Program::new(CapabilityInfo::new("program.cat".parse()?), ["cat"])?;
    let mut counting = CapabilityInfo::new("program.count".parse()?);
    counting.description = "Counts to three.".to_owned();
    counting.streams = true;
    let script =
        Program::new(counting, ["sh", "-c", "for number in 1 2 3; do echo $number; sleep 0.1; done"])?;
    let sleep = Program::new(CapabilityInfo::new("program.sleep".parse()?), ["sleep", "600"])?;

    let mut provider = Node::builder("agent://default/demo/programs").listen("127.0.0.1:0");
    for program in [cat, script, sleep.timeout(Duration::from_millis(300))] {
        provider = provider.capability(ProgramCapability::new(program)?);
    }
    let _provider = provider.start().await?;
    let caller = Node::builder("agent://default/demo/caller").start().await?;

    let same: Value = caller.call("program.cat", &json!({ "hello": "mesh" })).await?;
    println!("cat:    {same}");

    let mut numbers = caller.call("program.count", &()).stream::<u32>().await?;
    while let Some(number) = numbers.next().await {
        println!("script: {}", number?);
    }

    match caller.call::<Value>("program.sleep", &()).await {
        Ok(value) => println!("sleep:  {value}, which must not happen"),
        Err(error) => println!("sleep:  {error}"),
    }
    Ok(())
}
