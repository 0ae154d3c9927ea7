//! The `steadlock` command.

#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod access_rules;
mod acl;
mod completions;
#[cfg(feature = "doctor")]
mod doctor;
mod exit;
mod holder;
#[cfg(feature = "http")]
mod http;
mod lead;
mod link;
mod manual;
mod metrics;
mod output;
mod records;
mod run;
mod serve;
mod server;
mod signals;
mod supervisor;
mod tools;
mod tree;
mod usage;
mod wanted;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::exit::Exit;

/// A distributed lock on Redis or Valkey, shared by Python, Node, the JVM and Rust.
#[derive(Parser)]
#[command(name = "steadlock", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Run(run::Run),
    Lead(lead::Lead),
    #[cfg(feature = "doctor")]
    Doctor(doctor::Doctor),
    Inspect(tools::inspect::Inspect),
    List(tools::list::List),
    Jobs(tools::jobs::Jobs),
    Leader(tools::leader::Leader),
    Top(tools::top::Top),
    Wait(tools::wait::Wait),
    Release(tools::release::Release),
    Acl(acl::Acl),
    Completions(completions::Completions),
    Manual(manual::Manual),
    #[command(hide = true)]
    Supervise(supervisor::Supervise),
    #[command(hide = true)]
    Exec(supervisor::Exec),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => usage::without_user_input(error).exit(),
    };
    let outcome = match arguments.command {
        // `exec` replaces this process by the command, so it needs no runtime.
        Command::Exec(exec) => exec.run(),
        command => dispatch(command),
    };
    outcome.unwrap_or_else(|exit| exit.map_message(server::with_flag_names).report())
}

#[tokio::main(flavor = "current_thread")]
async fn dispatch(command: Command) -> Result<ExitCode, Exit> {
    match command {
        Command::Serve(serve) => serve.run().await,
        Command::Run(run) => run.run().await,
        Command::Lead(lead) => lead.run().await,
        #[cfg(feature = "doctor")]
        Command::Doctor(doctor) => doctor.run().await,
        Command::Inspect(inspect) => inspect.run().await,
        Command::List(list) => list.run().await,
        Command::Jobs(jobs) => jobs.run().await,
        Command::Leader(leader) => leader.run().await,
        Command::Top(top) => top.run().await,
        Command::Wait(wait) => wait.run().await,
        Command::Release(release) => release.run().await,
        Command::Supervise(supervise) => supervise.run().await,
        Command::Exec(exec) => exec.run(),
        Command::Acl(acl) => acl.run(),
        Command::Completions(completions) => completions.run(&Arguments::command()),
        Command::Manual(manual) => manual.run(Arguments::command()),
    }
}
