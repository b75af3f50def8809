// Ids that do not depend on where the checkout lies: what is built is committed, and tests compare it.
module.exports = { optimization: { moduleIds: "natural", chunkIds: "natural" } };
