// The Node.js client (rocketmq-client-nodejs) as a judge: node judge.js ENDPOINTS PREFIX COUNT. PREFIX names topics and groups. Prints a
// line of JSON.
'use strict';

const { Producer, SimpleConsumer, PushConsumer, ConsumeResult } = require('rocketmq-client-nodejs');
const { TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const [endpoints, prefix, wanted] = process.argv.slice(2);
const count = Number(wanted);
const logger = { debug() {}, info() {}, warn() {}, error: console.error };
const common = { endpoints, namespace: '', logger, requestTimeout: 20000 };
const KINDS = ['normal', 'fifo', 'delay', 'transaction'];
const PATIENCE_MS = 50000;

function until(holds, ms = PATIENCE_MS) {
  const end = Date.now() + ms;
  return new Promise(resolve => {
    const look = () => (holds() || Date.now() > end ? resolve() : setTimeout(look, 10));
    look();
  });
}

// A client that gets its settings before its routes waits for them for ever: it is told of them until it is ready.
async function started(client) {
  const take = client.onSettingsCommand.bind(client);
  let told;
  client.onSettingsCommand = (...settings) => {
    take(...settings);
    clearInterval(told);
    told = setInterval(take, 100, ...settings);
  };
  await client.startup();
  clearInterval(told);
  client.onSettingsCommand = take;
  return client;
}

async function push(kind, expression, refuses) {
  const taken = [];
  const consume = async message => {
    if (refuses && message.deliveryAttempt === 1) return ConsumeResult.FAILURE;
    taken.push([message.body.toString(), message.deliveryAttempt]);
    return ConsumeResult.SUCCESS;
  };
  const subscriptions = new Map([[`${prefix}-${kind}`, expression]]);
  await started(new PushConsumer({ ...common, consumerGroup: `${prefix}-${kind}-push`, subscriptions, messageListener: { consume } }));
  return { taken };
}

async function sendAll(producer) {
  for (let number = 0; number < count; number++) {
    const properties = new Map([['colour', 'blau ü']]);
    const body = Buffer.from(`${number}`);
    await producer.send({ topic: `${prefix}-normal`, tag: number % 2 ? 'TagB' : 'TagA', keys: ['key', 'Schlüssel'], properties, body });
    const group = number % 2;
    await producer.send({ topic: `${prefix}-fifo`, messageGroup: `group ${group}`, body: Buffer.from(`${group} ${number}`) });
  }
  await producer.send({ topic: `${prefix}-delay`, delay: 3000, body: Buffer.from('late') });
  for (const word of ['commit', 'rollback', 'unknown']) {
    const transaction = producer.beginTransaction();
    await producer.send({ topic: `${prefix}-transaction`, body: Buffer.from(`${word} it`) }, transaction);
    if (word !== 'unknown') await transaction[word]();
  }
}

async function receiveAll(simple) {
  const taken = {};
  let colour;
  for (const end = Date.now() + PATIENCE_MS; Object.keys(taken).length < count && Date.now() < end;) {
    for (const each of await simple.receive(16, 60000)) {
      const body = each.body.toString();
      if (body === '0' && each.deliveryAttempt === 1) {
        await simple.changeInvisibleDuration(each, 10000);
      } else {
        await simple.ack(each);
        taken[body] = each.deliveryAttempt;
        colour = each.properties.get('colour');
      }
    }
  }
  return { taken, colour };
}

async function main() {
  const { COMMIT, ROLLBACK } = TransactionResolution;
  const checker = { check: async message => (message.body.toString().startsWith('rollback') ? ROLLBACK : COMMIT) };
  const producer = await started(new Producer({ ...common, topics: KINDS.map(kind => `${prefix}-${kind}`), checker }));
  await sendAll(producer);
  const subscriptions = new Map([[`${prefix}-normal`, '*']]);
  const options = { ...common, consumerGroup: `${prefix}-normal-simple`, subscriptions, awaitDuration: 5000 };
  const simple = await started(new SimpleConsumer(options));
  const pushed = {};
  for (const kind of KINDS) pushed[kind] = await push(kind, kind === 'normal' ? 'TagA' : '*', kind === 'normal');
  const { taken, colour } = await receiveAll(simple);
  const enough = { normal: count / 2, fifo: count, delay: 1, transaction: 2 };
  await until(() => KINDS.every(kind => pushed[kind].taken.length >= enough[kind]));
  const seen = {
    simple: taken,
    normal: Object.fromEntries(pushed.normal.taken),
    fifo: ['0 ', '1 '].map(group => pushed.fifo.taken.map(([body]) => body).filter(body => body.startsWith(group))),
    delay: pushed.delay.taken,
    transaction: pushed.transaction.taken.map(([body]) => body).sort(),
    colour,
  };
  console.log(JSON.stringify(seen));
  process.exit(0); // a shutdown waits for long polls to end
}

main().catch(error => { console.error(error); process.exit(1); });
