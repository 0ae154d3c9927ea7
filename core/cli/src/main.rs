//! The `leasehold` command.

#![forbid(unsafe_code)]

mod exit;
mod serve;

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
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(serve) => serve.run().await,
    };
    outcome.unwrap_or_else(Exit::report)
}
