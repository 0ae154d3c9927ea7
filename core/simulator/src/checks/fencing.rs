//! Checks I2: the tokens of one name rise with every grant, and a resource that refuses lower tokens never accepts a
//! write of an earlier holder.

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
    /// The token and the owner of the last grant on the server.
    last: Option<(Token, usize)>,
    /// The position of each token in the order of grants.
    order: BTreeMap<Token, usize>,
    /// The token and the hold of the last write that the resource accepted.
    taken: Option<(Token, u64)>,
}

impl Fencing {
    /// Notes that the server granted a lock. `again` means that the owner already had the record.
    pub(crate) fn granted(&mut self, name: usize, owner: usize, token: Token, again: bool) -> Checked {
        let of_name = self.names.entry(name).or_default();
        if let Some((last, last_owner)) = of_name.last {
            let is_right = match (owner == last_owner, again) {
                // The last grant was to this owner, and its record still exists: the answer may have the same token again.
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

    /// Notes that a holder writes to the guarded resource. Returns whether the resource accepts the write.
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
