//! I2: tokens of one name rise with every grant, and a resource that refuses
//! lower ones never takes the write of a holder that was superseded.

use std::collections::BTreeMap;

use steadlock_protocol::Token;

use super::{Checked, broken};

/// The check of I2.
#[derive(Debug, Default)]
pub(crate) struct Fencing {
    names: BTreeMap<usize, Name>,
}

#[derive(Debug, Default)]
struct Name {
    /// The last grant on the server: its token and owner.
    last: Option<(Token, usize)>,
    /// The place of each token in the order of grants.
    order: BTreeMap<Token, usize>,
    /// What the guarded resource took last: token and hold.
    taken: Option<(Token, u64)>,
}

impl Fencing {
    /// The server granted a lock. `again` says that the owner had the record already.
    pub(crate) fn granted(&mut self, name: usize, owner: usize, token: Token, again: bool) -> Checked {
        let of_name = self.names.entry(name).or_default();
        if let Some((last, last_owner)) = of_name.last {
            let is_right = match (owner == last_owner, again) {
                // Nobody drew one in between.
                (true, true) => token >= last,
                _ => token > last,
            };
            if !is_right {
                return broken(
                    "I2",
                    format!(
                        "owner {owner} got token {token} of name {name}; \
                         the last grant was owner {last_owner}'s, {last}"
                    ),
                );
            }
        }
        of_name.last = Some((token, owner));
        let count = of_name.order.len();
        of_name.order.entry(token).or_insert(count);
        Ok(())
    }

    /// A holder writes to the guarded resource; says whether the resource takes it.
    pub(crate) fn writes(&mut self, name: usize, hold: u64, token: Token) -> Result<bool, super::Broken> {
        let of_name = self.names.entry(name).or_default();
        let Some(place) = of_name.order.get(&token) else {
            return broken("I2", format!("no server gave token {token} of name {name}")).map(|()| false);
        };
        if let Some((taken, by)) = of_name.taken {
            if token < taken || (token == taken && hold != by) {
                return Ok(false);
            }
            if of_name.order.get(&taken).is_some_and(|before| before > place) {
                let what = format!("the resource took token {token} of name {name} after {taken}, a later grant");
                return broken("I2", what).map(|()| false);
            }
        }
        of_name.taken = Some((token, hold));
        Ok(true)
    }
}
