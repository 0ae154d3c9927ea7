//! The `leasehold` command.

#![forbid(unsafe_code)]

mod exit;
mod run;
mod serve;
mod signals;

use clap::{Parser, Subcommand};

use crate::exit::Exit;

/// A distributed lock on Redis or Valkey, shared by Python, Node, the JVM and Rust.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Run(run::Run),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(serve) => serve.run().await,
        Command::Run(run) => run.run().await,
    };
    outcome.unwrap_or_else(Exit::report)
}
