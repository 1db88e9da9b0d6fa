//! `hermes-peer serve`: any program as a capability.

use hermes_peer::CapabilityInfo;
use hermes_peer::CapabilityName;
use hermes_peer::HandlerLimits;
use hermes_peer::Node;
use hermes_peer::Program;
use hermes_peer::ProgramCapability;
use hermes_peer::config::Config;
use hermes_peer::describe;
use hermes_peer_proto::wire::AgentUri;

use crate::args::Serve;
use crate::exit::Failure;
use crate::output::Output;

use super::Surroundings;
use super::hosting;
use super::node::refused;
use super::signals::Signals;

/// Runs the verb.
pub(super) async fn run(serve: &Serve, around: &Surroundings, out: &mut Output) -> Result<(), Failure> {
    let signals = Signals::listen()?;
    let mut config = around.file.as_ref().map_or_else(Config::default, |file| file.config.clone());
    // What else the file's node provides is not this one's to provide.
    config.programs.clear();
    config.capabilities.clear();
    config.node_id = serve.node.clone().or(config.node_id);
    config.listen = serve.listen.unwrap_or(config.listen);
    config.agent = serve.agent.clone().or(config.agent);
    // Where there is a certificate, it says whose node this is.
    if config.agent.is_none() && config.auth.is_none() {
        config.agent = Some(agent_of(&serve.capability)?);
    }
    let builder = Node::from_config(&config).map_err(refused)?.capability(capability(serve)?);
    hosting::host(builder, signals, around, out, |_| {}).await
}

fn capability(serve: &Serve) -> Result<ProgramCapability, Failure> {
    let mut info = CapabilityInfo::new(serve.capability.clone());
    if let Some(path) = &serve.schema {
        describe(&mut info, path).map_err(refused)?;
    }
    if let Some(description) = &serve.description {
        info.description.clone_from(description);
    }
    info.streams = serve.stream;
    let told = |error: hermes_peer::ProgramError| Failure::usage(error.to_string());
    let mut program = Program::new(info, &serve.program).map_err(told)?.timeout(serve.timeout);
    if let Some(bytes) = serve.memory {
        program = program.memory(bytes);
    }
    let limits = HandlerLimits::default().concurrency(serve.concurrency);
    Ok(ProgramCapability::new(program).map_err(told)?.limits(limits))
}

/// An agent named after what it does: `demo.echo` is served by `agent://default/local/demo-echo`.
fn agent_of(capability: &CapabilityName) -> Result<AgentUri, Failure> {
    let name = capability.as_str().replace(['.', '_'], "-");
    format!("agent://default/local/{name}").parse().map_err(|error| {
        Failure::usage(format!("no agent can be named after {capability}: {error}; --agent names one"))
    })
}
