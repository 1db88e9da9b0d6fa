//! `hermes-peer check`: what a start would refuse, and where.

mod start;

use std::path::Path;

use hermes_peer::certificates::Utc;
use hermes_peer::config::Config;
use hermes_peer::config::Finding;
use hermes_peer::config::Severity;
use serde_json::Value;
use serde_json::json;

use crate::args::Global;
use crate::certs::relative;
use crate::config::need;
use crate::exit::Failure;
use crate::output::Output;
use crate::output::Paint;
use crate::output::printable;

use start::Started;

/// Runs the verb.
pub(crate) fn run(file: Option<&Path>, global: &Global, out: &mut Output) -> Result<(), Failure> {
    let path = match file {
        Some(file) => file.to_owned(),
        None => need(global)?,
    };
    let (findings, good) = match Config::load(&path) {
        Ok(config) => {
            let mut findings = config.warnings().to_vec();
            let started = start::check(&path, &config, &mut findings);
            (findings, Some((config, started)))
        }
        Err(error) => (error.findings().to_vec(), None),
    };
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let good = good.filter(|_| errors == 0);
    if global.json {
        let summary = good.as_ref().map(|(config, started)| summary_json(config, started));
        let findings: Vec<Value> = findings.iter().map(finding_json).collect();
        out.json(&json!({
            "file": path.display().to_string(), "ok": errors == 0, "findings": findings, "summary": summary,
        }))?;
    } else {
        findings.iter().try_for_each(|finding| print(finding, out))?;
        if let Some((config, started)) = &good {
            summary(&path, config, started, findings.len(), out)?;
        }
    }
    match errors {
        0 => Ok(()),
        1 => Err(Failure::usage(format!("{}: 1 error; a start would be refused", path.display()))),
        many => Err(Failure::usage(format!("{}: {many} errors; a start would be refused", path.display()))),
    }
}

fn severity(finding: &Finding) -> &'static str {
    if finding.severity == Severity::Warning { "warning" } else { "error" }
}

fn print(finding: &Finding, out: &mut Output) -> Result<(), Failure> {
    let style = out.style();
    let place = match finding.at.line {
        0 => finding.file.clone(),
        line => format!("{}:{line}:{}", finding.file, finding.at.column),
    };
    let kind = style.paint(Paint::Title, severity(finding));
    let key = match finding.path.as_str() {
        "" => String::new(),
        path => format!("{path}: "),
    };
    out.line(format_args!(
        "{}: {kind}: {}{}",
        style.paint(Paint::Name, &printable(&place)),
        printable(&key),
        printable(&finding.message)
    ))?;
    if let Some(line) = &finding.source_line {
        let number = finding.at.line.to_string();
        let before: String = line.chars().take(finding.at.column.saturating_sub(1)).collect();
        let (gutter, indent) = (" ".repeat(number.len()), " ".repeat(printable(&before).chars().count()));
        out.line(format_args!("  {number} | {}", printable(line)))?;
        out.line(format_args!("  {gutter} | {indent}{}", style.paint(Paint::Value, "^")))?;
    }
    if finding.remedy.is_empty() {
        Ok(())
    } else {
        out.line(format_args!("  help: {}", printable(&finding.remedy)))
    }
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "file": finding.file,
        "line": finding.at.line,
        "column": finding.at.column,
        "severity": severity(finding),
        "key": finding.path,
        "message": finding.message,
        "remedy": finding.remedy,
    })
}

fn summary(
    path: &Path,
    config: &Config,
    started: &Started,
    warnings: usize,
    out: &mut Output,
) -> Result<(), Failure> {
    let node = config.node_id.as_ref().map_or("a node with a name made up", |node| node.as_str());
    let agent = match started.agent(config) {
        Some(agent) => format!(" of {agent}"),
        None => String::new(),
    };
    let warned = match warnings {
        0 => String::new(),
        1 => ", 1 warning".to_owned(),
        many => format!(", {many} warnings"),
    };
    let title = out.style().paint(Paint::Title, "ok:");
    out.line(format_args!(
        "{title} {}: {node}{agent}, listens on {}{warned}",
        path.display(),
        config.listen
    ))?;
    match &started.certificate {
        Some(own) => out.line(format_args!(
            "  mtls: certificate valid until {} ({})",
            Utc(own.not_after),
            relative(own.not_after)
        ))?,
        None if config.auth.is_some() => out.line("  token: every node with the token is trusted")?,
        None => out.line("  no auth: nodes of this user on this machine trust each other")?,
    }
    let names: Vec<&str> = config.programs.iter().map(|program| program.capability.as_str()).collect();
    if !names.is_empty() {
        out.line(format_args!("  programs: {}", names.join(", ")))?;
    }
    let peers: Vec<&str> = config.peers.iter().map(|peer| peer.node_id.as_str()).collect();
    if !peers.is_empty() {
        out.line(format_args!("  peers: {}", peers.join(", ")))?;
    }
    Ok(())
}

fn summary_json(config: &Config, started: &Started) -> Value {
    json!({
        "node_id": config.node_id.as_ref().map(|node| node.as_str()),
        "agent": started.agent(config).map(|agent| agent.as_str()),
        "listen": config.listen.to_string(),
        "certificate_until": started.certificate.as_ref().map(|own| format!("{:#}", Utc(own.not_after))),
        "programs": config.programs.iter().map(|program| program.capability.as_str()).collect::<Vec<_>>(),
        "peers": config.peers.iter().map(|peer| peer.node_id.as_str()).collect::<Vec<_>>(),
    })
}
