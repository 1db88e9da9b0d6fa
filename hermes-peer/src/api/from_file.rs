//! From a configuration file to a builder: each section fills the settings of the floor that owns them.

use std::path::Path;

use serde_json::Value;

use hermes_peer_proto::protocol::LinkSettings;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityInfo;

use crate::api::builder::Auth;
use crate::api::builder::NodeBuilder;
use crate::api::error::StartError;
use crate::api::program::ProgramCapability;
use crate::config::AuthConfig;
use crate::config::Config;
use crate::config::LimitsConfig;
use crate::config::ProgramConfig;
use crate::mesh::admission::HandlerLimits;
use crate::mesh::program::Program;
use crate::transport::endpoint::Endpoint;
use crate::transport::reload::TlsFiles;

/// The agent of a file that names none.
const DEFAULT_AGENT: &str = "agent://default/local/node";

impl NodeBuilder {
    pub(super) fn from_config(config: &Config) -> Result<Self, StartError> {
        let agent = config.agent.as_ref().map_or(DEFAULT_AGENT, AgentUri::as_str);
        let mut builder = Self::new(agent).listen(&config.listen.to_string());
        if let Some(node_id) = &config.node_id {
            builder = builder.node_id(node_id.as_str());
        }
        for peer in &config.peers {
            builder = builder.peer_of_agent(
                peer.node_id.as_str(),
                &peer.endpoint,
                peer.agent.clone(),
                peer.capabilities.clone(),
            );
        }
        builder = match &config.auth {
            None => builder,
            Some(AuthConfig::Token { tokens }) => builder.auth(Auth::Token(tokens.clone())),
            Some(AuthConfig::Mtls { ca, cert, key, crl }) => builder.auth(Auth::Mtls(TlsFiles {
                ca: ca.clone(),
                cert: cert.clone(),
                key: key.clone(),
                crl: crl.clone(),
            })),
        };
        if let Some(rules) = &config.policy {
            builder = builder.policy(rules.clone());
        }
        if !config.discovery.local {
            builder = builder.without_local_discovery();
        }
        for program in &config.programs {
            builder = builder.capability(program_capability(program)?);
        }
        builder = builder
            .expect_capabilities(config.capabilities.iter().cloned())
            .versions(config.version.min, config.version.max);
        for advertised in &config.advertise {
            builder.settings.advertise.push(advertised.parse::<Endpoint>()?);
        }
        builder.fill(config);
        Ok(builder)
    }

    fn fill(&mut self, config: &Config) {
        let limits = &config.limits;
        let mesh = &mut self.settings;
        mesh.link = link_settings(config);
        mesh.call_timeout = limits.call_timeout;
        mesh.provider_wait = limits.provider_wait;
        mesh.max_hops = u8::try_from(limits.max_hops).unwrap_or(u8::MAX);
        mesh.max_connections = limits.max_connections as usize;
        mesh.unauthenticated = limits.unauthenticated as usize;
        mesh.unauthenticated_per_source = limits.unauthenticated_per_source as usize;
        mesh.handshake_timeout = limits.handshake_timeout;
        mesh.reconnect_min = limits.reconnect_min;
        mesh.reconnect_max = limits.reconnect_max;
        mesh.link_park = limits.link_park;
        mesh.secret_lifetime = limits.secret_lifetime;
        mesh.journal_records = config.journal.records as usize;
        mesh.handler_limits = handler_limits(limits);
        self.sessions.idle_timeout = config.session.timeout;
        self.sessions.max_sessions = config.session.max_sessions as usize;
        self.sessions.max_bytes = bounded(config.session.max_bytes) as usize;
        self.idempotency.keep_for = config.idempotency.keep;
        self.idempotency.max_keys = config.idempotency.max_keys as usize;
        self.idempotency.max_bytes = bounded(config.idempotency.max_bytes) as usize;
    }
}

fn link_settings(config: &Config) -> LinkSettings {
    let limits = &config.limits;
    let mut settings = LinkSettings::default();
    let announced = &mut settings.announced;
    announced.max_message = bounded(limits.max_message);
    announced.stream_window = bounded(limits.stream_window);
    announced.link_window = bounded(limits.link_window);
    announced.event_window = bounded(limits.event_window);
    announced.max_streams = limits.streams_per_link;
    announced.heartbeat_ms = u32::try_from(config.session.heartbeat_interval.as_millis()).unwrap_or(u32::MAX);
    settings.retained_frames = limits.retained_messages as usize;
    settings.retained_bytes = bounded(limits.retained_bytes) as usize;
    settings.assembly_bytes = 2 * u64::from(announced.max_message);
    settings
}

fn handler_limits(limits: &LimitsConfig) -> HandlerLimits {
    HandlerLimits::default().concurrency(limits.handler_concurrency).queue(limits.handler_queue)
}

/// The wire has 32 bits for sizes.
fn bounded(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn program_capability(config: &ProgramConfig) -> Result<ProgramCapability, StartError> {
    let mut info = CapabilityInfo::new(config.capability.clone());
    if let Some(path) = &config.schema {
        describe(&mut info, path)?;
    }
    if let Some(description) = &config.description {
        info.description.clone_from(description);
    }
    info.streams = config.streams;
    info.access = config.access;
    info.facts = config.facts;
    let mut program = Program::new(info, &config.command)?.timeout(config.timeout);
    if let Some(bytes) = config.memory {
        program = program.memory(bytes);
    }
    let limits = HandlerLimits::default().concurrency(config.concurrency);
    Ok(ProgramCapability::new(program)?.limits(limits))
}

/// Fills a description from a JSON file with `input`, `output`, `item` and `description`.
///
/// # Errors
/// [`StartError::Setting`] if the file cannot be read or is not such a file.
pub fn describe(info: &mut CapabilityInfo, path: &Path) -> Result<(), StartError> {
    let refused = |reason: String| StartError::Setting {
        name: "schema",
        reason: format!("{}: {reason}", path.display()),
    };
    let text = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
    let parsed = crate::schema::parse(&text).map_err(|error| refused(error.to_string()))?;
    let Value::Object(members) = parsed else {
        return Err(refused("it is no JSON object with `input`, `output` and `description`".to_owned()));
    };
    for (name, value) in members {
        match (name.as_str(), value) {
            ("input", schema) => info.input_schema = schema.to_string(),
            ("output", schema) => info.output_schema = schema.to_string(),
            ("item", schema) => info.item_schema = Some(schema.to_string()),
            ("description", Value::String(text)) => info.description = text,
            _ => {
                let reason =
                    format!("`{name}` is none of `input`, `output`, `item` and `description` (a text)");
                return Err(refused(reason));
            }
        }
    }
    Ok(())
}
