//! Writing policy into the kernel: the tables of the other generation first,
//! then one update that makes them count.

use std::collections::HashMap;

use aya::maps::MapError;
use aya::maps::lpm_trie::Key;
use governor_core::key::{CgroupEntry, MAX_RULES, OrderKey, PortKey, RuleKey, RuleValue, map};
use governor_core::order::Order;

use super::maps::{Wire, map_failed};
use super::{Governor, params};
use crate::errors::{Exit, Failure, Result};
use crate::policy::select::{Entry, Table};

impl Governor {
    /// The policy generation in force; 0: none yet.
    pub fn generation(&self) -> u32 {
        self.config.generation
    }

    /// Puts a compiled policy in force. `classes` has the class of every
    /// workload (by cgroup id) in this table; a workload that is not in it gets
    /// class 0. On an error the policy in force stays as it is, whole.
    pub fn set_policy(&mut self, table: &Table, classes: &HashMap<u64, u32>) -> Result<()> {
        let old = self.config.generation;
        // 0 says "none yet".
        let new = old.checked_add(1).unwrap_or(2);
        // What a predecessor left half-written.
        self.clear_policy(new & 1)?;
        if let Err(error) = self.write_policy(new & 1, table, classes) {
            // The first error is the one to tell; leftovers go at the next try.
            let _ = self.clear_policy(new & 1);
            return Err(error);
        }
        self.config.generation = new;
        if let Err(error) = self.write_config() {
            self.config.generation = old;
            return Err(error);
        }
        // An attempt that read the old generation a moment ago may miss its
        // entry: it passes and is counted.
        self.clear_policy(old & 1)
    }

    /// Adds the entries of a class that [`Table::class_of`] has just made to the
    /// policy in force.
    pub fn add_class(&mut self, table: &Table, class: u32) -> Result<()> {
        let parity = self.config.generation & 1;
        table
            .entries_of(class)
            .try_for_each(|entry| self.write_entry(parity, entry))
    }

    /// Says what a cgroup is.
    pub fn set_cgroup(&mut self, id: u64, entry: CgroupEntry) -> Result<()> {
        let written = self.maps.cgroups.insert(Wire(id), Wire(entry), 0);
        written.map_err(|error| map_failed(map::CGROUPS, error))
    }

    /// Forgets a cgroup; one that is not known is no error.
    pub fn remove_cgroup(&mut self, id: u64) -> Result<()> {
        gone(self.maps.cgroups.remove(&Wire(id))).map_err(|error| map_failed(map::CGROUPS, error))
    }

    /// Gives an order, or takes it back.
    pub fn set_order(&mut self, key: OrderKey, order: Option<Order>) -> Result<()> {
        let written = match order {
            Some(order) => self.maps.orders.insert(Wire(key), Wire(order), 0),
            None => gone(self.maps.orders.remove(&Wire(key))),
        };
        written.map_err(|error| map_failed(map::ORDERS, error))?;
        self.count_orders()
    }

    /// The orders in the kernel.
    pub fn orders(&self) -> Vec<(OrderKey, Order)> {
        let orders = self.maps.orders.iter().filter_map(Result::ok);
        orders.map(|(key, order)| (key.0, order.0)).collect()
    }

    /// Keeps `Config::orders` right, which spares every attempt the look-up.
    pub(super) fn count_orders(&mut self) -> Result<()> {
        let orders = u32::try_from(self.orders().len()).unwrap_or(u32::MAX);
        if orders != self.config.orders {
            self.config.orders = orders;
            self.write_config()?;
        }
        Ok(())
    }

    fn write_policy(
        &mut self,
        parity: u32,
        table: &Table,
        classes: &HashMap<u64, u32>,
    ) -> Result<()> {
        let specs = table.params();
        if specs.len() > MAX_RULES as usize {
            let why = format!("{} of them; the kernel holds {MAX_RULES}", specs.len());
            return Err(Failure::new(Exit::Usage, "policies", why));
        }
        for (spec, index) in specs.iter().zip(parity * MAX_RULES..) {
            let written = self.maps.params.set(index, Wire(params(spec)), 0);
            written.map_err(|error| map_failed(map::PARAMS, error))?;
        }
        for (port, class) in table.port_classes() {
            let key = PortKey {
                parity,
                port: u32::from(*port),
            };
            let written = self.maps.ports.insert(Wire(key), Wire(*class), 0);
            written.map_err(|error| map_failed(map::PORTS, error))?;
        }
        for entry in table.entries() {
            self.write_entry(parity, entry)?;
        }
        self.write_classes(parity, classes)
    }

    fn write_entry(&mut self, parity: u32, entry: Entry) -> Result<()> {
        let key = RuleKey::new(parity, entry.class, entry.port_class, entry.prefix.octets());
        let key = Key::new(entry.key_bits(), Wire(key));
        let value = RuleValue {
            rule: entry.target.rule,
            group: entry.target.group,
        };
        let written = self.maps.rules.insert(&key, Wire(value), 0);
        written.map_err(|error| map_failed(map::RULES, error))
    }

    fn write_classes(&mut self, parity: u32, classes: &HashMap<u64, u32>) -> Result<()> {
        let known: Vec<_> = self.maps.cgroups.iter().filter_map(Result::ok).collect();
        for (id, Wire(mut entry)) in known {
            let class = classes.get(&entry.workload).copied().unwrap_or(0);
            entry.class[parity as usize & 1] = class;
            self.set_cgroup(id.0, entry)?;
        }
        Ok(())
    }

    /// Deletes what one generation has in the tables.
    fn clear_policy(&mut self, parity: u32) -> Result<()> {
        let ports: Vec<_> = self.maps.ports.keys().filter_map(Result::ok).collect();
        for key in ports.into_iter().filter(|key| key.0.parity == parity) {
            gone(self.maps.ports.remove(&key)).map_err(|error| map_failed(map::PORTS, error))?;
        }
        let rules: Vec<_> = self.maps.rules.keys().filter_map(Result::ok).collect();
        for key in rules
            .into_iter()
            .filter(|key| u32::from(key.data().0.class[0] >> 7) == parity)
        {
            gone(self.maps.rules.remove(&key)).map_err(|error| map_failed(map::RULES, error))?;
        }
        Ok(())
    }
}

/// Removing what is not there is no error.
fn gone(removed: Result<(), MapError>) -> Result<(), MapError> {
    match removed {
        Err(MapError::KeyNotFound) => Ok(()),
        Err(MapError::SyscallError(call)) if call.io_error.raw_os_error() == Some(libc::ENOENT) => {
            Ok(())
        }
        removed => removed,
    }
}
