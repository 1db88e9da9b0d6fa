//! What a start would refuse though the file itself is good: what the file names.

use std::io;
use std::net::TcpListener;
use std::path::Path;

use hermes_peer::CapabilityInfo;
use hermes_peer::Program;
use hermes_peer::ProgramError;
use hermes_peer::StartError;
use hermes_peer::certificates::CertificateFacts;
use hermes_peer::certificates::TlsFiles;
use hermes_peer::check_schema;
use hermes_peer::config::AuthConfig;
use hermes_peer::config::Config;
use hermes_peer::config::Finding;
use hermes_peer::config::ProgramConfig;
use hermes_peer::config::Severity;
use hermes_peer::describe;
use hermes_peer_proto::wire::AgentUri;

/// What a start would begin with.
#[derive(Debug)]
pub(super) struct Started {
    /// The node's certificate, if it has one.
    pub(super) certificate: Option<CertificateFacts>,
}

impl Started {
    /// The agent that the node serves: the file's, else the certificate's.
    pub(super) fn agent<'a>(&'a self, config: &'a Config) -> Option<&'a AgentUri> {
        config.agent.as_ref().or(self.certificate.as_ref()?.agent.as_ref())
    }
}

/// Looks at everything that a file names.
pub(super) fn check(path: &Path, config: &Config, findings: &mut Vec<Finding>) -> Started {
    let mut report = Report { path, findings };
    let certificate = certificates(config, &mut report);
    for (index, program) in config.programs.iter().enumerate() {
        check_program(index, program, &mut report);
    }
    for (index, name) in config.capabilities.iter().enumerate() {
        if !config.programs.iter().any(|program| program.capability == *name) {
            report.warn(
                &format!("capabilities[{index}]"),
                &format!("no program provides `{name}`, so `hermes-peer up` refuses this file"),
                "add it under `programs`; an agent that registers it in its own code starts",
            );
        }
    }
    check_listen(config, &mut report);
    report.findings.sort_by_key(|finding| finding.at);
    Started { certificate }
}

/// Findings about one file.
struct Report<'a> {
    path: &'a Path,
    findings: &'a mut Vec<Finding>,
}

impl Report<'_> {
    fn error(&mut self, key: &str, message: &str, remedy: &str) {
        self.findings.push(Config::finding(self.path, key, Severity::Error, message, remedy));
    }

    fn warn(&mut self, key: &str, message: &str, remedy: &str) {
        self.findings.push(Config::finding(self.path, key, Severity::Warning, message, remedy));
    }
}

fn certificates(config: &Config, report: &mut Report<'_>) -> Option<CertificateFacts> {
    let Some(AuthConfig::Mtls { ca, cert, key, crl, .. }) = &config.auth else {
        return None;
    };
    let files = TlsFiles::new(ca.clone(), cert.clone(), key.clone(), crl.clone());
    let checked = match files.check() {
        Ok(checked) => checked,
        Err(error) => {
            report.error("auth", &error.to_string(), "");
            return None;
        }
    };
    // The file's reader has warned of a key that others can read.
    for warning in checked.warnings.iter().filter(|warning| !warning.contains("chmod")) {
        report.warn("auth", warning, "");
    }
    if let (Some(agent), Some(own)) = (&config.agent, &checked.own.agent)
        && agent != own
    {
        let message =
            format!("the file's agent is {agent}, and the certificate {} is for {own}", cert.display());
        let remedy = "peers believe the certificate: change `agent`, or issue a certificate for it with `hermes-peer certs issue`";
        report.error("agent", &message, remedy);
    }
    Some(checked.own)
}

fn check_program(index: usize, program: &ProgramConfig, report: &mut Report<'_>) {
    let key = |part: &str| format!("programs[{index}].{part}");
    let runnable = Program::new(CapabilityInfo::new(program.capability.clone()), &program.command)
        .and_then(|program| program.check());
    if let Err(why) = runnable {
        let remedy = match why {
            ProgramError::NotFound { .. } => {
                "install it, or write its path: without a `/` it is looked up in PATH, `./` is this file's folder"
            }
            _ => "",
        };
        report.error(&key("command"), &why.to_string(), remedy);
    }
    if let Some(schema) = &program.schema
        && let Err(why) = check_schema_file(program, schema)
    {
        report.error(&key("schema"), &why, "");
    }
}

fn check_schema_file(program: &ProgramConfig, path: &Path) -> Result<(), String> {
    let mut info = CapabilityInfo::new(program.capability.clone());
    describe(&mut info, path).map_err(|error| match error {
        StartError::Setting { reason, .. } => reason,
        error => error.to_string(),
    })?;
    let item = info.item_schema.as_deref().unwrap_or_default();
    for (part, schema) in [("input", &*info.input_schema), ("output", &*info.output_schema), ("item", item)] {
        if schema.is_empty() {
            continue;
        }
        let refused = |why: String| format!("{}: its `{part}` cannot be used: {why}", path.display());
        let schema = serde_json::from_str(schema).map_err(|error| refused(error.to_string()))?;
        check_schema(&schema).map_err(|error| refused(error.to_string()))?;
    }
    Ok(())
}

fn check_listen(config: &Config, report: &mut Report<'_>) {
    match TcpListener::bind(config.listen) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => report.warn(
            "listen",
            &format!("something listens on {} already", config.listen),
            "if that is not this node itself, take another port",
        ),
        Err(error) => report.error(
            "listen",
            &format!("the node cannot listen on {}: {error}", config.listen),
            "write an address of this machine",
        ),
    }
}
