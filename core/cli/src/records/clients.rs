//! Finds the program and the machine of each owner. Each client writes its own to the servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadlock::admin::{Deployment, KeyPrefix, LockName};
use steadlock::{ClientInfo, Error};

use super::answers::{Answer, Command, ask, command};
use super::owner::{Library, Owner};

/// Once this many keys are to be read, the keys of further owners are left out.
const MAX_KEYS: usize = 5_000;
/// The characters after which a name is cut to get a possible key prefix.
const SEPARATORS: &[char] = &[':', '/', '.', '|'];
/// The number of separators in a name, from its start, that are tried as the end of the prefix.
const MAX_SEPARATORS: usize = 4;

/// Adds the clients' names to the owners: the program and the machine. A client writes its name to a key that depends
/// on its key prefix. Each owner comes with the full name of its lock, which starts with that prefix.
///
/// # Errors
/// Fails if a server does not answer, or answers that it cannot serve, such as `LOADING`. An owner whose key may not be
/// read stays without a name.
pub(super) async fn add_client_names<'a>(
    deployment: &mut Deployment,
    owners: impl IntoIterator<Item = (&'a LockName, &'a mut Owner)>,
) -> Result<(), Error> {
    let mut owners: Vec<(&LockName, &mut Owner)> = owners
        .into_iter()
        .filter(|(_, owner)| owner.library() == Library::Steadlock)
        .collect();
    let mut keys = BTreeMap::new();
    for (name, owner) in &owners {
        let client = owner.client().filter(|_| keys.len() < MAX_KEYS);
        keys.extend(
            client
                .into_iter()
                .flat_map(|client| possible_keys(client, name).map(move |key| (key, client.to_owned()))),
        );
    }
    let infos = read_infos(deployment, keys).await?;
    for (_, owner) in &mut owners {
        if let Some(info) = owner.client().and_then(|client| infos.get(client)).cloned() {
            owner.set_client(info);
        }
    }
    Ok(())
}

/// Returns the keys at which a client with a lock of this name can have written its own name.
fn possible_keys(client: &str, name: &LockName) -> impl Iterator<Item = Arc<[u8]>> {
    let name = name.as_str();
    let ends = name
        .match_indices(SEPARATORS)
        .map(|(at, separator)| at + separator.len());
    let prefixes = std::iter::once(0).chain(ends.take(MAX_SEPARATORS));
    let prefixes = prefixes.filter_map(|end| KeyPrefix::parse(&name[..end]).ok());
    prefixes.map(move |prefix| prefix.key_of_client(client))
}

async fn read_infos(
    deployment: &mut Deployment,
    keys: BTreeMap<Arc<[u8]>, String>,
) -> Result<BTreeMap<String, Arc<ClientInfo>>, Error> {
    let mut infos = BTreeMap::new();
    let mut left: Vec<(Arc<[u8]>, String)> = keys.into_iter().collect();
    // Each node answers for its own keys. An owner whose key is moving between nodes may stay without a name.
    for server in deployment.primaries_mut() {
        if left.is_empty() {
            break;
        }
        let commands: Vec<Command> = left.iter().map(|(key, _)| command(&[b"GET", key])).collect();
        let answers = ask(server, &commands).await?;
        let mut elsewhere = Vec::new();
        for ((key, client), answer) in left.into_iter().zip(answers) {
            match answer {
                Answer::Elsewhere => elsewhere.push((key, client)),
                answer => {
                    let info = answer.text().and_then(|text| ClientInfo::parse(text.as_bytes()));
                    infos.extend(info.map(|info| (client, Arc::new(info))));
                }
            }
        }
        left = elsewhere;
    }
    Ok(infos)
}
