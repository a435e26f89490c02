// The pure JavaScript client (ali-ons) as a judge: sends, reads back by push with tags, as a group of two and broadcasting, and prints one line
// of JSON with what it saw. Usage: node judge.js NAMESRV TOPIC GROUP COUNT. It calls itself version 121, so it is given fastjson's routes; its
// header fields are JSON numbers and booleans, not strings.
'use strict';

const { Producer, Consumer, Message } = require('ali-ons');

const [namesrv, topic, group, wanted] = process.argv.slice(2);
const count = Number(wanted);
const logger = { debug() {}, info() {}, warn() {}, error: console.error };
const common = { httpclient: {}, nameSrv: namesrv, logger, rebalanceInterval: 1000 };
const problems = [];

function until(holds, ms = 30000) {
  const end = Date.now() + ms;
  return new Promise(resolve => {
    const look = () => (holds() || Date.now() > end ? resolve() : setTimeout(look, 10));
    look();
  });
}

async function consumer(name, expression, options) {
  const made = new Consumer({ ...common, instanceName: name, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', ...options });
  made.bodies = [];
  made.on('error', error => problems.push(error.message));
  made.subscribe(topic, expression, async message => { made.bodies.push(message.body.toString()); made.last = message; });
  await made.ready();
  return made;
}

async function main() {
  const producer = new Producer({ ...common, producerGroup: 'GID-node-producer' });
  producer.on('error', error => problems.push(error.message));
  await producer.ready();
  const statuses = {};
  const send = async number => {
    const message = new Message(topic, number % 2 ? 'TagB' : 'TagA', number ? `节点 ${number}` : 'x'.repeat(100000));
    message.keys = [`key-${number}`, '键'];
    const { sendStatus } = await producer.send(message);
    statuses[sendStatus] = (statuses[sendStatus] || 0) + 1;
  };
  for (let number = 0; number < count; number++) await send(number);
  const tagged = await consumer('tagged', 'TagA || TagC', { consumerGroup: `${group}-tagged` });
  const pair = [await consumer('one', '*', { consumerGroup: group }), await consumer('two', '*', { consumerGroup: group })];
  const cast = [];
  for (const name of ['left', 'right']) {
    cast.push(await consumer(name, '*', { consumerGroup: `${group}-cast`, isBroadcast: true }));
  }
  const together = () => new Set(pair.flatMap(each => each.bodies)).size;
  await until(() => tagged.bodies.length >= count / 2 && together() >= count && cast.every(each => each.bodies.length >= count));
  const seen = {
    statuses,
    tagged: tagged.bodies.length,
    together: together(),
    cast: cast.map(each => new Set(each.bodies).size),
    large: tagged.bodies.some(body => body === 'x'.repeat(100000)),
    keys: tagged.last.keys,
    tags: tagged.last.tags,
    problems: [...problems], // of the work, not of the goodbye
  };
  for (const each of [tagged, ...pair, ...cast, producer]) await each.close();
  console.log(JSON.stringify(seen));
}

main().then(() => process.exit(0), error => { console.error(error); process.exit(1); });
